"""Norms and gated activations of a frozen model, each one launch forward and one backward.

transformers writes them out: an RMSNorm is 6 to 8 operations forward and twice as many backward,
silu(gate) * up two and five. With x a token's D features, w the norm's weight, g a gradient and
means over features:

    RMSNorm    y = w x / rms,  rms = sqrt(mean x^2 + eps)
               dx = (w g - x mean(w g x) / rms^2) / rms
    SwiGLU     z = gate sigmoid(gate) up
               dgate = g up s (1 + gate (1 - s)),  dup = g gate s,  s = sigmoid(gate)

Weights are frozen, so that no gradient of w is computed. Values are rounded where transformers
rounds them: before the product with w, and before that with up. What is kept for the backward pass
is the input and, for a norm, 1 / rms in float32.

Bytes moved, of b each, by N tokens: RMSNorm 2 b N D forward and 3 b N D backward, SwiGLU 3 b N D
and 5 b N D. These are estimates for a GPU, not measurements.

Importing this module needs triton; see `triton_kernels` for how it runs on a CPU.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

# A row of a norm is held in registers.
MAX_NORM_FEATURES = 16_384
ELEMENTS = 1024  # of a program of SwiGLU


class FusedRmsNorm(nn.Module):
    """RMSNorm with a frozen weight [D]; the class that `fuse_modules` gives to modules."""

    weight: Tensor
    fused_eps: float

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        y = _RmsNorm.apply(x, self.weight, self.fused_eps)  # type: ignore[no-untyped-call]
        assert isinstance(y, Tensor)
        return y


class FusedSwiGlu(nn.Module):
    """down(silu(gate(x)) * up(x)); the class that `fuse_modules` gives to modules."""

    gate_proj: nn.Module
    up_proj: nn.Module
    down_proj: nn.Module

    def forward(self, x: Tensor) -> Any:
        """[..., in] -> [..., out]."""
        product = _SwiGlu.apply(self.gate_proj(x), self.up_proj(x))  # type: ignore[no-untyped-call]
        return self.down_proj(product)


def fuse_modules(model: nn.Module) -> int:
    """Let norms and gated activations of a frozen model compute the same in fewer launches.

    To be called before adapters are added, which replace the linear modules of an activation.
    A module is changed in place if what it computes of random tokens is then the same but for
    rounding; others, such as Gemma's norms, which multiply by 1 + w, stay as they are.

    Returns:
        How many modules were changed.
    """
    # Weights of 4 bits a number are not of the type of activations; those of embeddings are.
    dtypes = (weight.dtype for weight in model.parameters() if weight.is_floating_point())
    dtype = next(dtypes)
    return sum(_fuse(module, dtype) for module in list(model.modules()))


def _fuse(module: nn.Module, dtype: torch.dtype) -> bool:
    names = dict(module.named_children())
    weight = getattr(module, "weight", None)
    if type(module).__name__.endswith("RMSNorm") and isinstance(weight, Tensor):
        eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
        if weight.dim() != 1 or len(weight) > MAX_NORM_FEATURES or not isinstance(eps, float):
            return False
        x = _random_tokens(len(weight), dtype, weight.device)
        return _changes_nothing(module, FusedRmsNorm, x, eps)
    if names.keys() == {"gate_proj", "up_proj", "down_proj", "act_fn"}:
        gate = module.gate_proj
        if not isinstance(gate, nn.Linear):
            return False
        x = _random_tokens(gate.in_features, dtype, gate.weight.device)
        return _changes_nothing(module, FusedSwiGlu, x)
    return False


def _random_tokens(features: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, features, generator=generator).to(device, dtype)


@torch.no_grad()
def _changes_nothing(
    module: nn.Module, fused: type[nn.Module], x: Tensor, eps: float = 0.0
) -> bool:
    """Give a module another class, unless that changes what it computes of x."""
    expected, before = module(x), module.__class__
    # The class changes and not the object, so that ties and names of weights stay.
    module.__class__ = fused
    module.fused_eps = eps  # type: ignore[assignment]
    error = float((module(x) - expected).abs().max())
    # A few units in the last place of the largest value: that of a sum in another order.
    if error <= 4 * torch.finfo(x.dtype).eps * float(expected.abs().max()):
        return True
    module.__class__ = before
    del module.fused_eps
    return False


class _RmsNorm(torch.autograd.Function):
    """x [..., D], weight [D], eps -> [..., D]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        rows = x.reshape(-1, len(weight)).contiguous()
        y = torch.empty_like(rows)
        inverse_rms = torch.empty(len(rows), dtype=torch.float32, device=x.device)
        _rms_norm[(len(rows),)](rows, weight, y, inverse_rms, len(weight), eps, **_row_tile(weight))
        ctx.save_for_backward(rows, weight, inverse_rms)
        return y.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rows, weight, inverse_rms = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, len(weight)).contiguous()
        x_gradient = torch.empty_like(gradient)
        _rms_norm_backward[(len(rows),)](
            rows, weight, gradient, inverse_rms, x_gradient, len(weight), **_row_tile(weight)
        )
        return x_gradient.view(gradients[0].shape), None, None


def _row_tile(weight: Tensor) -> dict[str, int]:
    features = triton.next_power_of_2(len(weight))
    return {"FEATURES": features, "num_warps": min(16, max(1, features // 512))}


class _SwiGlu(torch.autograd.Function):
    """gate, up -> silu(gate) * up, all of one shape."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        product = torch.empty_like(gate)
        _swiglu[(triton.cdiv(gate.numel(), ELEMENTS),)](
            gate, up, product, gate.numel(), ELEMENTS=ELEMENTS
        )
        ctx.save_for_backward(gate, up)
        return product

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gate, up = ctx.saved_tensors
        gate_gradient, up_gradient = torch.empty_like(gate), torch.empty_like(up)
        _swiglu_backward[(triton.cdiv(gate.numel(), ELEMENTS),)](
            gate, up, gradients[0].contiguous(), gate_gradient, up_gradient, gate.numel(),
            ELEMENTS=ELEMENTS,
        )  # fmt: skip
        return gate_gradient, up_gradient


@triton.jit
def _rms_norm(
    x: tl.tensor,
    weight: tl.tensor,
    y: tl.tensor,
    inverse_rms: tl.tensor,
    num_features: tl.tensor,
    eps: tl.tensor,
    FEATURES: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    features = tl.arange(0, FEATURES)
    is_feature = features < num_features
    values = tl.load(x + row * num_features + features, mask=is_feature, other=0.0).to(tl.float32)
    inverse = 1 / tl.sqrt_rn(tl.sum(values * values, 0) / num_features + eps)
    tl.store(inverse_rms + row, inverse)
    normalized = (values * inverse).to(y.dtype.element_ty).to(tl.float32)
    scaled = normalized * tl.load(weight + features, mask=is_feature, other=0.0).to(tl.float32)
    tl.store(y + row * num_features + features, scaled.to(y.dtype.element_ty), mask=is_feature)


@triton.jit
def _rms_norm_backward(
    x: tl.tensor,
    weight: tl.tensor,
    gradient: tl.tensor,
    inverse_rms: tl.tensor,
    x_gradient: tl.tensor,
    num_features: tl.tensor,
    FEATURES: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    features = tl.arange(0, FEATURES)
    is_feature = features < num_features
    inverse = tl.load(inverse_rms + row)
    places = row * num_features + features
    normalized = tl.load(x + places, mask=is_feature, other=0.0).to(tl.float32) * inverse
    scaled = tl.load(gradient + places, mask=is_feature, other=0.0).to(tl.float32)
    scaled *= tl.load(weight + features, mask=is_feature, other=0.0).to(tl.float32)
    along = tl.sum(scaled * normalized, 0) / num_features
    result = ((scaled - normalized * along) * inverse).to(x_gradient.dtype.element_ty)
    tl.store(x_gradient + places, result, mask=is_feature)


@triton.jit
def _swiglu(
    gate: tl.tensor,
    up: tl.tensor,
    product: tl.tensor,
    num_elements: tl.tensor,
    ELEMENTS: tl.constexpr,
) -> None:
    places = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    is_place = places < num_elements
    gates = tl.load(gate + places, mask=is_place, other=0.0).to(tl.float32)
    activated = (gates * tl.sigmoid(gates)).to(product.dtype.element_ty).to(tl.float32)
    activated *= tl.load(up + places, mask=is_place, other=0.0).to(tl.float32)
    tl.store(product + places, activated.to(product.dtype.element_ty), mask=is_place)


@triton.jit
def _swiglu_backward(
    gate: tl.tensor,
    up: tl.tensor,
    gradient: tl.tensor,
    gate_gradient: tl.tensor,
    up_gradient: tl.tensor,
    num_elements: tl.tensor,
    ELEMENTS: tl.constexpr,
) -> None:
    places = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    is_place = places < num_elements
    gates = tl.load(gate + places, mask=is_place, other=0.0).to(tl.float32)
    ups = tl.load(up + places, mask=is_place, other=0.0).to(tl.float32)
    incoming = tl.load(gradient + places, mask=is_place, other=0.0).to(tl.float32)
    sigmoid = tl.sigmoid(gates)
    slope = sigmoid * (1 + gates * (1 - sigmoid))
    element: tl.constexpr = gate_gradient.dtype.element_ty
    tl.store(gate_gradient + places, (incoming * ups * slope).to(element), mask=is_place)
    tl.store(up_gradient + places, (incoming * gates * sigmoid).to(element), mask=is_place)
