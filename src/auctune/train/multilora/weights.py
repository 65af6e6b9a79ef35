"""Weights of one adapter: all parameters in one flat tensor, their gradients in another.

So the norm, the optimizer and a checkpoint each see one tensor, and passes add gradients to views
of it. In a pass the weights have the number type of the base, as in PEFT's own layers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from peft import LoraConfig
from torch import Tensor

LORA_A, LORA_B = ".lora_A.weight", ".lora_B.weight"


@dataclass(frozen=True)
class FlatAdapter:
    """All parameters of one adapter in a flat tensor, their gradients in another.

    Attributes:
        shapes: of the parameters, by their names in the base.
        values, gradients: float32 [num_parameters].
    """

    shapes: Mapping[str, tuple[int, ...]]
    values: Tensor
    gradients: Tensor

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Return views of a flat tensor like `values`, by the names of the parameters."""
        parts = torch.split(flat, [math.prod(shape) for shape in self.shapes.values()])
        return {
            name: part.view(shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


class LayerFactors(NamedTuple):
    """One adapter's matrices on one linear layer.

    Attributes:
        a, b: [r, in] and [out, r], in the number type of passes.
        grad_a, grad_b: float32, of the same shapes; of an adapter that does not train, without
            elements.
    """

    a: Tensor
    b: Tensor
    grad_a: Tensor
    grad_b: Tensor


@dataclass(frozen=True)
class AdapterWeights(FlatAdapter):
    """One adapter on a model.

    Attributes:
        name: of the adapter.
        config: PEFT's, its target modules known.
        compute: [num_parameters], the values in the number type of passes: `values` itself where
            that is the same.
        layers: its matrices, by the names of the linear modules that it adapts.
    """

    name: str
    config: LoraConfig
    compute: Tensor
    layers: Mapping[str, LayerFactors]

    @property
    def scale(self) -> float:
        """Factor of the adapter's product: alpha / r, or alpha / sqrt r."""
        rank = self.config.r
        return float(self.config.lora_alpha / (math.sqrt(rank) if self.config.use_rslora else rank))

    @property
    def num_cast_bytes(self) -> int:
        """Memory of the values in the number type of passes, where that is another one."""
        return 0 if self.compute is self.values else self.compute.nbytes


def new_weights(
    name: str,
    config: LoraConfig,
    shapes: Mapping[str, tuple[int, ...]],
    device: torch.device,
    dtype: torch.dtype,
    *,
    trains: bool,
) -> AdapterWeights:
    """Return an adapter of some shapes whose values are not set yet.

    Args:
        name, config, shapes: as of `AdapterWeights`.
        device: of all tensors.
        dtype: of passes.
        trains: whether it has gradients, and values in float32.
    """
    total = sum(map(math.prod, shapes.values()))
    values = torch.empty(total, device=device, dtype=torch.float32 if trains else dtype)
    gradients = torch.zeros(total if trains else 0, device=device)
    compute = values if values.dtype is dtype else torch.empty_like(values, dtype=dtype)
    flat = FlatAdapter(shapes, values, gradients)
    matrices = flat.named(compute)
    of_matrices = flat.named(gradients) if trains else dict.fromkeys(shapes, gradients)
    layers = {}
    for module in (key.removesuffix(LORA_A) for key in shapes if key.endswith(LORA_A)):
        lora_a, lora_b = module + LORA_A, module + LORA_B
        factors = matrices[lora_a], matrices[lora_b], of_matrices[lora_a], of_matrices[lora_b]
        layers[module] = LayerFactors(*factors)
    return AdapterWeights(shapes, values, gradients, name, config, compute, layers)
