"""Random numbers of one thread's own, though libraries share one global generator.

Dropout, a data loader's shuffling and a data set's augmentation draw from generators that belong
to the process: those of torch (processor and device), numpy's older interface and Python. Each
thread has its own state of all of them, put in place while it runs; so its draws do not depend on
which threads run between its turns.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from auctune.domain.errors import CheckpointError
from auctune.numerics.rng import stream


class RandomState:
    """A state of the global generators, to be put in place for a while.

    Args:
        seed: of the run.
        names: what is drawn for, as of auctune.numerics.rng.stream.
        device: whose generator is in it too, if it has one of its own.
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
        """A block whose draws go on from this state, and leave all others as they were."""
        with self._kept():
            self._put(self._state)
            try:
                yield
            finally:
                self._state = self._capture()

    def tensors(self) -> dict[str, Tensor]:
        """The state as tensors by name."""
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
        """Take over a state from `tensors`.

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

    def _capture(self) -> "_Generators":
        return _Generators(
            torch.get_rng_state(),
            np.random.get_state(legacy=True),
            random.getstate(),
            None if self._cuda is None else torch.cuda.get_rng_state(self._cuda),
        )

    def _put(self, state: "_Generators") -> None:
        torch.set_rng_state(state.torch)
        np.random.set_state(state.numpy)
        random.setstate(state.python)
        if state.cuda is not None:
            assert self._cuda is not None
            torch.cuda.set_rng_state(state.cuda, self._cuda)


class _Generators(NamedTuple):
    """States as the libraries give them, which is the quickest way to put them back."""

    torch: Tensor
    numpy: Any
    python: tuple[Any, ...]
    cuda: Tensor | None
