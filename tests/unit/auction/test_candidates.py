"""Candidates that are mended cell by cell are those that a new list would hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from auctune.auction.candidates import change_use, list_candidates, list_open
from support.kernels import plain


def points(
    listed: NDArray[np.int64], compute: NDArray[np.float64], memory: NDArray[np.float64]
) -> list[tuple[float, float]]:
    # Nodes used alike stand for each other: their use says all.
    return [(float(compute[n]), float(memory[n])) for n in listed]


@pytest.mark.parametrize("change", [change_use, plain(change_use)], ids=["compiled", "plain"])
def test_a_mended_list_is_a_new_list(change: Callable[..., Any]) -> None:
    rng = np.random.default_rng(31)
    longest = 0
    for _ in range(15):
        num_nodes = int(rng.integers(1, 20))
        type_of = np.zeros(num_nodes, dtype=np.int64)
        nodes_of, first_of = np.arange(num_nodes), np.array([0, num_nodes])
        compute, memory = np.zeros((2, 1, num_nodes))
        tasks = np.zeros((1, num_nodes), dtype=np.int64)
        candidates, num_candidates = nodes_of[None].copy(), np.array([[1]])
        sold: list[tuple[int, float, float]] = []
        for _ in range(60):
            if sold and rng.random() < 0.4:
                node, samples, gigabytes = sold.pop(int(rng.integers(len(sold))))
                sign = -1
            else:
                # Few values make equal uses common; what takes much of one takes little of the
                # other, so that many nodes are undominated.
                node = int(rng.integers(num_nodes))
                samples = float(rng.integers(1, 7))
                gigabytes = float(max(0, 7 - samples + rng.integers(-1, 2)))
                sold.append((node, samples, gigabytes))
                sign = 1
            change(
                type_of,
                nodes_of,
                first_of,
                compute,
                memory,
                tasks,
                candidates,
                num_candidates,
                np.array([0]),
                np.array([node]),
                np.array([samples]),
                gigabytes,
                sign,
                True,
            )
            anew = np.zeros(num_nodes, dtype=np.int64)
            count = list_candidates(compute[0], memory[0], nodes_of, anew)
            mended = candidates[0, : num_candidates[0, 0]]
            assert points(mended, compute[0], memory[0]) == points(
                anew[:count], compute[0], memory[0]
            )
            longest = max(longest, count)
    assert longest > 3


def test_a_lost_node_is_no_candidate() -> None:
    compute, memory = np.array([np.inf, 2.0, np.inf, 1.0]), np.array([np.inf, 0.0, np.inf, 1.0])
    for lister, expected in ((list_candidates, [3, 1]), (plain(list_candidates), [3, 1])):
        listed = np.zeros(4, dtype=np.int64)
        assert listed[: lister(compute, memory, np.arange(4), listed)].tolist() == expected
    for opener in (list_open, plain(list_open)):
        listed = np.zeros(4, dtype=np.int64)
        assert listed[: opener(compute, np.arange(4), listed)].tolist() == [1, 3]
