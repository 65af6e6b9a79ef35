"""Products of tokens with their own adapters' matrices, and their oracle: autograd in float64."""

from dataclasses import dataclass
from functools import partial

import torch
from hypothesis import strategies as st
from torch import Tensor

from auctune.train.multilora.segment_backends import LayerSegment, SegmentBackend
from auctune.train.multilora.weights import LayerFactors


@dataclass(frozen=True)
class Case:
    """Tokens of some segments, with and without gaps between them, each of a rank."""

    places: tuple[tuple[int, int], ...]
    ranks: tuple[int, ...]
    num_tokens: int
    inputs: int = 24
    outputs: int = 16


@st.composite
def cases(draw: st.DrawFn) -> Case:
    places, ranks, place = [], [], draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 4))):
        length = draw(st.integers(1, 5))
        places.append((place, place + length))
        ranks.append(draw(st.integers(1, 9)))
        place += length + draw(st.sampled_from([0, 0, 2]))
    num_tokens = place + draw(st.integers(0, 2))
    return Case(tuple(places), tuple(ranks), num_tokens, *draw(st.sampled_from([(24, 16), (5, 7)])))


def tensor(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def segments_of(
    case: Case, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> list[LayerSegment]:
    """Segments with matrices, and gradients that others are added to."""
    found = []
    for n, (place, rank) in enumerate(zip(case.places, case.ranks, strict=True)):
        factors = LayerFactors(
            tensor(rank, case.inputs, seed=10 + n).to(device, dtype),
            tensor(case.outputs, rank, seed=20 + n).to(device, dtype),
            tensor(rank, case.inputs, seed=30 + n).to(device),
            tensor(case.outputs, rank, seed=40 + n).to(device),
        )
        found.append(LayerSegment(*place, factors))
    return found


def run(
    backend: SegmentBackend, case: Case, segments: list[LayerSegment], x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y and the gradient of x; both, and gradients of matrices, are added to something."""
    scale = tensor(case.num_tokens, 1, seed=5).to(x.device)
    y, grad_x = tensor(case.num_tokens, case.outputs, seed=2).to(x), _like(x, seed=3)
    saved = backend.forward(y, x, segments, scale)
    backend.backward(_like(y, seed=4), x, saved, segments, scale, grad_x)
    return y, grad_x


def check_products(
    backend: SegmentBackend,
    case: Case,
    *,
    tolerance: float,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> None:
    """Compare a backend's products and gradients with those of autograd in float64."""
    x = tensor(case.num_tokens, case.inputs, seed=1).to(device, dtype)
    segments = segments_of(case, device, dtype)
    before = [[one.clone().double() for one in segment.factors] for segment in segments]
    y, grad_x = run(backend, case, segments, x)

    exact_x = x.double().requires_grad_()
    expected = _like(y, seed=2).double()
    scale = tensor(case.num_tokens, 1, seed=5).double().to(device)
    for segment, (a, b, *_) in zip(segments, before, strict=True):
        a.requires_grad_()
        b.requires_grad_()
        place = slice(segment.first, segment.last)
        product = scale[place] * (exact_x[place] @ a.t() @ b.t())
        places = torch.arange(segment.first, segment.last, device=device)
        expected = expected.index_add(0, places, product)
    torch.autograd.backward(expected, _like(y, seed=4).double())
    close = partial(torch.testing.assert_close, rtol=tolerance, atol=tolerance, check_dtype=False)
    close(y.double(), expected.detach())
    close(grad_x.double(), _like(x, seed=3).double() + _gradient(exact_x))
    for segment, (a, b, grad_a, grad_b) in zip(segments, before, strict=True):
        assert segment.factors.grad_a.dtype is torch.float32
        close(segment.factors.grad_a.double(), grad_a + _gradient(a))
        close(segment.factors.grad_b.double(), grad_b + _gradient(b))


def _like(one: Tensor, seed: int) -> Tensor:
    return tensor(*one.shape, seed=seed).to(one)


def _gradient(one: Tensor) -> Tensor:
    assert one.grad is not None
    return one.grad
