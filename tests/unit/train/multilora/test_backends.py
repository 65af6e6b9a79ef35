import pytest
import torch
from hypothesis import given

from auctune.domain.errors import InputError
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.segment_backends import (
    BmmBackend,
    GroupedBackend,
    LoopBackend,
    SegmentBackend,
    grouped_obstacle,
)
from support.lora_products import Case, cases, check_products, run, segments_of, tensor
from support.thorough import drawn

BACKENDS = (LoopBackend(), BmmBackend(), GroupedBackend())
CPU = torch.device("cpu")


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@drawn(50)
@given(case=cases())
def test_products_and_gradients_are_those_of_their_formulas(
    backend: SegmentBackend, case: Case
) -> None:
    check_products(backend, case, tolerance=1e-4)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_a_segment_that_is_no_number_leaves_the_others_alone(backend: SegmentBackend) -> None:
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
def test_gradients_of_a_base_in_bfloat16_are_added_in_float32(backend: SegmentBackend) -> None:
    case = Case(((0, 64), (64, 128)), (8, 3), 128)
    segments = segments_of(case, dtype=torch.bfloat16)
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
