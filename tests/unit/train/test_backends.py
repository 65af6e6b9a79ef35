from dataclasses import dataclass
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from auctune.domain.errors import InputError
from auctune.train.multilora.backends import (
    Backend,
    BmmBackend,
    GroupedBackend,
    LoopBackend,
    choose_backend,
    grouped_obstacle,
)
from auctune.train.multilora.plan import LayerSegment
from auctune.train.multilora.weights import LayerFactors
from support.thorough import drawn

BACKENDS = (LoopBackend(), BmmBackend(), GroupedBackend())
CPU = torch.device("cpu")


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


def segments_of(case: Case) -> list[LayerSegment]:
    return [
        LayerSegment(
            *place,
            LayerFactors(
                tensor(rank, case.inputs, seed=10 + n),
                tensor(case.outputs, rank, seed=20 + n),
                tensor(rank, case.inputs, seed=30 + n),
                tensor(case.outputs, rank, seed=40 + n),
            ),
        )
        for n, (place, rank) in enumerate(zip(case.places, case.ranks, strict=True))
    ]


def run(
    backend: Backend, case: Case, segments: list[LayerSegment], x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y and the gradient of x; both, and gradients of matrices, are added to something."""
    scale = tensor(case.num_tokens, 1, seed=5)
    y, grad_x = tensor(case.num_tokens, case.outputs, seed=2), tensor(*x.shape, seed=3)
    saved = backend.forward(y, x, segments, scale)
    gradient = tensor(*y.shape, seed=4)
    backend.backward(gradient, x, saved, segments, scale, grad_x)
    return y, grad_x


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@drawn(50)
@given(case=cases())
def test_products_and_gradients_are_those_of_their_formulas(backend: Backend, case: Case) -> None:
    x, segments = tensor(case.num_tokens, case.inputs, seed=1), segments_of(case)
    before = [[one.clone().double() for one in segment.factors] for segment in segments]
    y, grad_x = run(backend, case, segments, x)

    found_x = x.double().requires_grad_()
    expected = tensor(*y.shape, seed=2).double()
    scale = tensor(case.num_tokens, 1, seed=5).double()
    for segment, (a, b, *_) in zip(segments, before, strict=True):
        a.requires_grad_()
        b.requires_grad_()
        place = slice(segment.first, segment.last)
        product = scale[place] * (found_x[place] @ a.t() @ b.t())
        expected = expected.index_add(0, torch.arange(segment.first, segment.last), product)
    torch.autograd.backward(expected, tensor(*y.shape, seed=4).double())
    close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)
    close(y, expected.detach().float())
    assert found_x.grad is not None
    close(grad_x, (tensor(*x.shape, seed=3) + found_x.grad).float())
    for segment, (a, b, grad_a, grad_b) in zip(segments, before, strict=True):
        close(segment.factors.grad_a, (grad_a + a.grad).float())
        close(segment.factors.grad_b, (grad_b + b.grad).float())


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_a_segment_that_is_no_number_leaves_the_others_alone(backend: Backend) -> None:
    case = Case(((0, 3), (3, 5), (5, 9)), (8, 8, 8), 9)
    x, segments = tensor(9, case.inputs, seed=1), segments_of(case)
    x[3:5] = torch.nan
    y, grad_x = run(backend, case, segments, x)
    assert y[:3].isfinite().all()
    assert y[5:].isfinite().all()
    assert y[3:5].isnan().all()
    assert grad_x.isfinite().all()
    for n, segment in enumerate(segments):
        assert segment.factors.grad_a.isnan().all() == (n == 1)
        assert segment.factors.grad_b.isfinite().all() == (n != 1)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_gradients_of_a_base_in_bfloat16_are_added_in_float32(backend: Backend) -> None:
    case = Case(((0, 64), (64, 128)), (8, 3), 128)
    segments = [
        segment._replace(
            factors=segment.factors._replace(
                a=segment.factors.a.bfloat16(), b=segment.factors.b.bfloat16()
            )
        )
        for segment in segments_of(case)
    ]
    before = [segment.factors.grad_a.clone() for segment in segments]
    x, y = tensor(128, 24, seed=1).bfloat16(), torch.zeros(128, 16).bfloat16()
    scale, tiny = torch.ones(128, 1), 1e-4 * tensor(128, 16, seed=4).bfloat16()
    saved = backend.forward(y, x, segments, scale)
    backend.backward(tiny, x, saved, segments, scale, None)
    for segment, old in zip(segments, before, strict=True):
        assert segment.factors.grad_a.dtype is torch.float32
        # All of it would be rounded away in bfloat16.
        assert (segment.factors.grad_a != old).float().mean() > 0.9


def test_grouped_is_refused_where_it_would_be_slow_and_says_why() -> None:
    assert "CUDA" in grouped_obstacle(CPU, torch.bfloat16)
    with pytest.raises(InputError, match="need CUDA"):
        choose_backend("grouped", CPU, torch.float32)


def test_names_choose_backends() -> None:
    chosen = {
        name: choose_backend(name, CPU, torch.float32).name for name in ("auto", "loop", "bmm")
    }
    assert chosen == {"auto": "loop", "loop": "loop", "bmm": "bmm"}
    with pytest.raises(InputError, match="'fast'"):
        choose_backend("fast", CPU, torch.float32)
