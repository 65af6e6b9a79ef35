import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from auctune.domain.errors import InputError
from auctune.train.multilora.backends import (
    Backend,
    BmmBackend,
    Bounds,
    GroupedBackend,
    LoopBackend,
    choose_backend,
    grouped_obstacle,
)
from support.thorough import drawn

BACKENDS = (LoopBackend(), BmmBackend(), GroupedBackend())
CPU = torch.device("cpu")


@st.composite
def segments(draw: st.DrawFn) -> tuple[Bounds, tuple[int, ...], int]:
    """Bounds with and without gaps, a rank for each, and the number of tokens."""
    bounds, ranks, place = [], [], draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 4))):
        length = draw(st.integers(1, 5))
        bounds.append((place, place + length))
        ranks.append(draw(st.integers(1, 9)))
        place += length + draw(st.sampled_from([0, 0, 2]))
    return tuple(bounds), tuple(ranks), place + draw(st.integers(0, 2))


def tensor(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@drawn(50)
@given(case=segments())
def test_each_token_meets_its_own_matrix(
    backend: Backend, case: tuple[Bounds, tuple[int, ...], int]
) -> None:
    bounds, ranks, num_tokens = case
    x, into = tensor(num_tokens, 24, seed=1), tensor(num_tokens, max(ranks), seed=2)
    weights = [tensor(24, rank, seed=3 + n) for n, rank in enumerate(ranks)]
    expected = into.clone()
    for (first, last), weight, rank in zip(bounds, weights, ranks, strict=True):
        for n in range(first, last):
            expected[n, :rank] += x[n] @ weight
    backend.add(into, x, weights, bounds)
    torch.testing.assert_close(into, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@drawn(50)
@given(case=segments())
def test_columns_beyond_a_matrix_do_not_count(
    backend: Backend, case: tuple[Bounds, tuple[int, ...], int]
) -> None:
    bounds, ranks, num_tokens = case
    low, into = tensor(num_tokens, max(ranks), seed=1), torch.zeros(num_tokens, 24)
    for (first, last), rank in zip(bounds, ranks, strict=True):
        low[first:last, rank:] = 0
    weights = [tensor(rank, 24, seed=3 + n) for n, rank in enumerate(ranks)]
    backend.add(into, low, weights, bounds)
    for (first, last), weight, rank in zip(bounds, weights, ranks, strict=True):
        torch.testing.assert_close(
            into[first:last], low[first:last, :rank] @ weight, rtol=1e-5, atol=1e-5
        )
        into[first:last] = 0
    assert not into.any()


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@drawn(50)
@given(case=segments())
def test_outer_products_are_summed_over_a_segment_alone(
    backend: Backend, case: tuple[Bounds, tuple[int, ...], int]
) -> None:
    bounds, ranks, num_tokens = case
    left, right = tensor(num_tokens, max(ranks), seed=1), tensor(num_tokens, 24, seed=2)
    found = backend.outer(left, right, ranks, bounds)
    for product, (first, last), rank in zip(found, bounds, ranks, strict=True):
        expected = torch.einsum("nr,nd->rd", left[first:last, :rank], right[first:last])
        torch.testing.assert_close(product, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_a_segment_that_is_no_number_leaves_the_others_alone(backend: Backend) -> None:
    bounds: Bounds = ((0, 3), (3, 5), (5, 9))
    x, into = tensor(9, 24, seed=1), torch.zeros(9, 8)
    x[3:5] = torch.nan
    weights = [tensor(24, 8, seed=n) for n in range(3)]
    backend.add(into, x, weights, bounds)
    assert into[:3].isfinite().all()
    assert into[5:].isfinite().all()
    assert into[3:5].isnan().all()
    for n, product in enumerate(backend.outer(into, x, (8, 8, 8), bounds)):
        assert product.isnan().all() if n == 1 else product.isfinite().all()


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
