"""Bit-identical results: deterministic algorithms, and random states that jobs do not share.

Dropout, a data loader's shuffling and a data set's augmentation draw from generators that belong to
the process: those of torch (CPU and device), numpy's older interface and Python. A `RandomState` is
one job's own state of all of them, set while the job runs; so its draws do not depend on the jobs
that run between its turns.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from auctune.domain.errors import CheckpointError
from auctune.numerics.rng import stream


def prepare_deterministic() -> None:
    """Configure cuBLAS; call it before the first product on a GPU."""
    # cuBLAS reads it once, before its first product.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def deterministic(threads: int | None = None) -> Iterator[None]:
    """Context manager in which torch's results are deterministic.

    Args:
        threads: of torch on a CPU, as sums depend on them; `None`: unchanged.
    """
    before, threads_before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    torch.use_deterministic_algorithms(True)
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        if threads is not None:
            torch.set_num_threads(threads_before)


class _Generators(NamedTuple):
    """States in the types of the libraries."""

    torch: Tensor
    numpy: Any
    python: tuple[Any, ...]
    cuda: Tensor | None


class RandomState:
    """State of the global generators that belongs to one job.

    Args:
        seed: of the run.
        names: the purpose of the draws, as of auctune.numerics.rng.stream.
        device: whose generator is included, if it has one of its own.
    """

    def __init__(self, seed: int, *names: str | int, device: torch.device) -> None:
        self._cuda = device if device.type == "cuda" else None
        draws = stream(seed, "random state", *names).integers(0, 2**32, size=2)
        with self._kept():
            torch.manual_seed(int(draws[0]))
            np.random.seed(int(draws[1]))
            random.seed(int(draws[1]))
            self._state = self._capture()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Draw from this state in a block; the process's own generators stay as they were."""
        with self._kept():
            self._put(self._state)
            try:
                yield
            finally:
                self._state = self._capture()

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as tensors by name."""
        version, words, gauss = self._state.python
        assert version == 3
        numpy_words = np.append(self._state.numpy[1].astype(np.int64), self._state.numpy[2:4])
        tensors = {
            "torch": self._state.torch,
            "numpy": torch.from_numpy(numpy_words.astype(np.int64)),
            "numpy_gauss": torch.tensor([self._state.numpy[4]], dtype=torch.float64),
            "python": torch.tensor(words, dtype=torch.int64),
            "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        }
        return tensors if self._state.cuda is None else {**tensors, "cuda": self._state.cuda}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take the state from `tensors`.

        Raises:
            CheckpointError: if a generator's state is missing.
        """
        try:
            words = tensors["numpy"].tolist()
            keys = np.array(words[:-2], dtype=np.uint32)
            gauss = tensors["python_gauss"]
            self._state = _Generators(
                tensors["torch"].clone(),
                ("MT19937", keys, words[-2], words[-1], tensors["numpy_gauss"].item()),
                (3, tuple(tensors["python"].tolist()), gauss.item() if len(gauss) else None),
                None if self._cuda is None else tensors["cuda"].clone(),
            )
        except KeyError as missing:
            raise CheckpointError(f"no state of the generator {missing.args[0]!r}") from None

    @contextmanager
    def _kept(self) -> Iterator[None]:
        before = self._capture()
        try:
            yield
        finally:
            self._put(before)

    def _capture(self) -> _Generators:
        return _Generators(
            torch.get_rng_state(),
            np.random.get_state(legacy=True),
            random.getstate(),
            None if self._cuda is None else torch.cuda.get_rng_state(self._cuda),
        )

    def _put(self, state: _Generators) -> None:
        torch.set_rng_state(state.torch)
        np.random.set_state(state.numpy)
        random.setstate(state.python)
        if state.cuda is not None:
            assert self._cuda is not None
            torch.cuda.set_rng_state(state.cuda, self._cuda)
