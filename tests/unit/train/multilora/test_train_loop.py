from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from auctune.train.multilora.batching import BatchRow, MicroBatch
from auctune.train.multilora.train_loop import cap_rows
from auctune.train.out_of_memory import run_or_out_of_memory

TOKENS = np.zeros(4, dtype=np.int64)
BATCH = MicroBatch((BatchRow("a", 0, TOKENS, TOKENS, 1.0),), is_packed=True)


def take_all_memory(batch: MicroBatch) -> dict[str, Tensor]:
    """Asks a CPU for an exabyte, for torch's own words."""
    return {"a": torch.empty(1 << 60, dtype=torch.uint8)}


def run_out_on_a_gpu(batch: MicroBatch) -> dict[str, Tensor]:
    raise torch.OutOfMemoryError("CUDA out of memory")


def fail_with(text: str) -> Callable[[MicroBatch], dict[str, Tensor]]:
    def run(batch: MicroBatch) -> dict[str, Tensor]:
        raise torch.AcceleratorError(text)

    return run


def divide(batch: MicroBatch) -> dict[str, Tensor]:
    return {"a": torch.zeros(2) @ torch.zeros(3)}


# As torch passes them on from the libraries that allocate for themselves.
OUT_OF_MEMORY = [
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
]


@pytest.mark.parametrize("run", [take_all_memory, run_out_on_a_gpu, *map(fail_with, OUT_OF_MEMORY)])
def test_memory_that_runs_out_is_no_error(run: object) -> None:
    assert run_or_out_of_memory(run, BATCH) is None  # type: ignore[arg-type]


def test_any_other_error_is_one() -> None:
    with pytest.raises(RuntimeError, match="size"):
        run_or_out_of_memory(divide, BATCH)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run_or_out_of_memory(
            fail_with("CUDA error: an illegal memory access was encountered"), BATCH
        )


def test_what_a_pass_returns_is_passed_on() -> None:
    sums = {"a": torch.ones(())}
    assert run_or_out_of_memory(lambda batch: sums, BATCH) is sums


@dataclass(frozen=True)
class _Task:
    """As much of a task as `cap_rows` looks at."""

    name: str
    row_cost: float = 1


@given(
    rows=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    most=st.one_of(st.none(), st.integers(1, 400)),
)
def test_a_round_is_cut_in_proportion_and_is_never_empty(rows: list[int], most: int | None) -> None:
    tasks = [_Task(f"task {n}") for n in range(len(rows))]
    shares: Any = list(zip(tasks, rows, strict=True))
    cut: Any = dict(cap_rows(shares, most))
    total = sum(rows)
    assert 1 <= sum(cut.values()) <= (total if most is None else min(total, most))
    assert all(cut.values())
    if most is None or most >= total:
        assert list(cut.items()) == shares
    elif most >= len(rows):
        for name, share in shares:
            assert abs(cut.get(name, 0) - share * most / total) < 1 or cut == {tasks[0]: 1}


@given(
    rows=st.lists(st.tuples(st.integers(1, 50), st.floats(0.01, 20.0)), min_size=1, max_size=6),
    most=st.integers(1, 400),
)
def test_a_round_costs_no_more_than_it_may(rows: list[tuple[int, float]], most: int) -> None:
    shares: Any = [(_Task(f"{n}", cost), count) for n, (count, cost) in enumerate(rows)]
    cut = cap_rows(shares, most)
    costs = [task.row_cost * count for task, count in cut]
    assert sum(costs) <= most * (1 + 1e-9) or [count for _, count in cut] == [1]
