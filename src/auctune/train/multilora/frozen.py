"""Products with the base's frozen weights, and their gradients, in the quickest way there is.

    y = x W^T + b        dL/dx = dL/dy W

W [out, in] has no gradient, so nothing but W itself is kept for the backward pass. On CPUs torch
leaves float32 products to MKL, which uses 512-bit instructions on Intel's processors alone; oneDNN,
which torch carries too, does on all that have them: 2.2 times as many operations a second on an AMD
EPYC of family 26, but a fifth fewer on an Intel Xeon. The results differ in rounding alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.activations import NewGELUActivation
from transformers.pytorch_utils import Conv1D

from auctune.train.host import is_intel

Linear = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""x [N, in], weight [out, in], bias [out] or none -> [N, out]; without a gradient."""


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """oneDNN's product, float32 on a CPU."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


def choose_linear(device: torch.device, dtype: torch.dtype) -> Linear:
    """Whose product to take; the same on one machine at any time, as bits depend on it."""
    if (
        device.type == "cpu"
        and dtype is torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and not is_intel()
    ):
        return onednn_linear
    return functional.linear


def frozen_weight(layer: Any) -> Tensor:
    """[out, in] of a linear module, or uint8, as bitsandbytes packs it."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return weight.t() if isinstance(layer, Conv1D) else weight


def unpacking(layer: Any) -> Callable[[Tensor], Tensor]:
    """Return what makes [out, in] of a linear module's `frozen_weight` for one product.

    A weight of 4 bits a number is unpacked for each product, and only its packed form is kept for
    the backward pass.
    """
    state = getattr(layer.weight, "quant_state", None)
    if state is None:
        return lambda weight: weight
    from bitsandbytes.functional import dequantize_4bit

    return partial(dequantize_4bit, quant_state=state)


def frozen_bias(layer: Any) -> Tensor | None:
    """[out] of a linear module, if it has one."""
    bias = layer.bias
    assert bias is None or isinstance(bias, Tensor)
    return bias


def use_native_gelu(model: PreTrainedModel) -> None:
    """Have GPT-2's activation, written out in six operations by transformers, be torch's one."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is NewGELUActivation:
                setattr(parent, name, nn.GELU(approximate="tanh"))
