"""Norms, gated activations and rotary embeddings of a frozen model, each one launch a pass.

transformers writes them out: an RMSNorm is 6 to 8 operations forward and twice as many backward,
silu(gate) * up two and five, the rotation of queries or keys five and ten. With x a token's D
features, w the norm's weight, g a gradient and means over features:

    RMSNorm    y = w x / rms,  rms = sqrt(mean x^2 + eps)
               dx = (w g - x mean(w g x) / rms^2) / rms
    SwiGLU     z = gate sigmoid(gate) up
               dgate = g up s (1 + gate (1 - s)),  dup = g gate s,  s = sigmoid(gate)
    rotary     y1 = x1 cos1 - x2 sin1,  y2 = x2 cos2 + x1 sin2,  1, 2: halves of a head's features
               dx1 = g1 cos1 + g2 sin2,  dx2 = g2 cos2 - g1 sin1

Weights are frozen, so that no gradient of w is computed. Values are rounded where transformers
rounds them: before the product with w, and before that with up. What is kept for the backward pass
is the input and, for a norm, 1 / rms in float32.

Bytes moved, of b each, by N tokens: RMSNorm 2 b N D forward and 3 b N D backward, SwiGLU 3 b N D
and 5 b N D, rotary 2 b N D each way. These are estimates for a GPU, not measurements.

Importing this module needs triton; see `triton_kernels` for how it runs on a CPU.
"""

from types import FunctionType
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

# A row of a norm is held in registers.
MAX_NORM_FEATURES = 16_384
ELEMENTS = 1024  # of a program of SwiGLU
_ROTARY = "apply_rotary_pos_emb"  # the function of transformers' models


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
    """Let parts of a frozen model compute the same in fewer launches.

    To be called before `patch_linears`, as modules are tried outside of a pass. A module is changed
    in place if what it computes of random tokens is then the same but for rounding; others, such as
    Gemma's norms, which multiply by 1 + w, stay as they are, and so do those changed before.

    Returns:
        How many modules were changed.
    """
    # Weights of 4 bits a number are not of the type of activations; those of embeddings are.
    weights = [weight for weight in model.parameters() if weight.is_floating_point()]
    dtype, device = weights[0].dtype, weights[0].device
    rotates: dict[type[nn.Module], type[nn.Module] | None] = {}
    count = 0
    for module in list(model.modules()):
        kind = type(module)
        if kind not in rotates:
            rotates[kind] = _rotating_class(kind, dtype, device)
        if fused := rotates[kind]:
            module.__class__ = fused
        count += fused is not None or _fuse(module, dtype)
    return count


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
        if isinstance(module, FusedSwiGlu) or not isinstance(gate, nn.Linear):
            return False
        x = _random_tokens(gate.in_features, dtype, gate.weight.device)
        return _changes_nothing(module, FusedSwiGlu, x)
    return False


def _rotating_class(
    kind: type[nn.Module], dtype: torch.dtype, device: torch.device
) -> type[nn.Module] | None:
    """Return a class of attention that rotates queries and keys by one launch each, if it can.

    transformers' models call a function of their own module, which is the same in most of them. The
    class has the same method, for which that name means another function.
    """
    forward = kind.forward
    known = getattr(forward, "__globals__", {}).get(_ROTARY)
    if kind.__module__ == __name__ or known is None or _ROTARY not in forward.__code__.co_names:
        return None

    def rotate(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, Tensor]:
        if unsqueeze_dim != 1 or not cos.shape[-1] == q.shape[-1] == k.shape[-1]:
            found: tuple[Tensor, Tensor] = known(q, k, cos, sin, unsqueeze_dim)
            return found
        return _Rotary.apply(q, cos, sin), _Rotary.apply(k, cos, sin)  # type: ignore[no-untyped-call]

    def heads(count: int) -> Tensor:
        return _random_tokens(3 * count * 8, dtype, device).view(4, 3, count, 8).transpose(1, 2)

    q, k, angles = heads(4), heads(2), heads(1)[:, 0].float()
    half = angles[..., :4]
    cos, sin = (torch.cat([part, part], dim=-1).to(dtype) for part in (half.cos(), half.sin()))
    try:
        expected = known(q, k, cos, sin)
    except (TypeError, ValueError, RuntimeError):
        # A function of other arguments.
        return None
    pairs = zip(rotate(q, k, cos, sin), expected, strict=True)
    if not all(_is_rounding(one, other) for one, other in pairs):
        return None
    bound = FunctionType(
        forward.__code__, {**forward.__globals__, _ROTARY: rotate}, closure=forward.__closure__
    )
    bound.__defaults__, bound.__kwdefaults__ = forward.__defaults__, forward.__kwdefaults__
    return type(f"Fused{kind.__name__}", (kind,), {"forward": bound, "__module__": __name__})


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
    if _is_rounding(module(x), expected):
        return True
    module.__class__ = before
    del module.fused_eps
    return False


def _is_rounding(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors differ by a few units in the last place of the largest value.

    That is what sums in another order differ by.
    """
    error = float((one - other).abs().max())
    return error <= 4 * torch.finfo(other.dtype).eps * float(other.abs().max())


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


class _Rotary(torch.autograd.Function):
    """x [rows, heads, tokens, D], cos and sin [rows or 1, tokens, D] -> as x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotate(x, cos, sin, is_backward=False)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _rotate(gradients[0], *ctx.saved_tensors, is_backward=True), None, None


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, *, is_backward: bool) -> Tensor:
    num_rows, num_heads, num_tokens, size = x.shape
    # Heads of a token side by side, as the model has them and attention takes them.
    y = x.new_empty(num_rows, num_tokens, num_heads, size).transpose(1, 2)
    x = x if x.stride(3) == 1 else x.contiguous()
    cos, sin = (one.expand(num_rows, num_tokens, size).contiguous() for one in (cos, sin))
    tiles = {"HEADS": triton.next_power_of_2(num_heads), "HALF": triton.next_power_of_2(size // 2)}
    _rotary[(num_rows * num_tokens,)](
        x, cos, sin, y, num_tokens, num_heads, size // 2, *x.stride()[:3], *y.stride()[:3],
        IS_BACKWARD=is_backward, **tiles,
    )  # fmt: skip
    return y


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


@triton.jit
def _rotary(
    x: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    y: tl.tensor,
    num_tokens: tl.tensor,
    num_heads: tl.tensor,
    half_size: tl.tensor,
    x_row: tl.tensor,
    x_head: tl.tensor,
    x_token: tl.tensor,
    y_row: tl.tensor,
    y_head: tl.tensor,
    y_token: tl.tensor,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
    IS_BACKWARD: tl.constexpr,
) -> None:
    """One token's heads."""
    place = tl.program_id(0).to(tl.int64)
    row, token = place // num_tokens, place % num_tokens
    heads, features = tl.arange(0, HEADS)[:, None], tl.arange(0, HALF)[None, :]
    is_feature = features < half_size
    mask = (heads < num_heads) & is_feature
    angles = place * 2 * half_size + features
    cos1 = tl.load(cos + angles, mask=is_feature, other=0.0).to(tl.float32)
    cos2 = tl.load(cos + angles + half_size, mask=is_feature, other=0.0).to(tl.float32)
    sin1 = tl.load(sin + angles, mask=is_feature, other=0.0).to(tl.float32)
    sin2 = tl.load(sin + angles + half_size, mask=is_feature, other=0.0).to(tl.float32)
    sources = x + row * x_row + token * x_token + heads * x_head + features
    x1 = tl.load(sources, mask=mask, other=0.0).to(tl.float32)
    x2 = tl.load(sources + half_size, mask=mask, other=0.0).to(tl.float32)
    if IS_BACKWARD:
        y1, y2 = x1 * cos1 + x2 * sin2, x2 * cos2 - x1 * sin1
    else:
        y1, y2 = x1 * cos1 - x2 * sin1, x2 * cos2 + x1 * sin2
    targets = y + row * y_row + token * y_token + heads * y_head + features
    tl.store(targets, y1.to(y.dtype.element_ty), mask=mask)
    tl.store(targets + half_size, y2.to(y.dtype.element_ty), mask=mask)
