"""Adapters that a process has loaded, the least recently used of them dropped for others.

Their number and memory are limited. An adapter of the same settings gives its place to another
one's weights.

To read and check the files of an adapter takes several times as long as to copy its weights, and
many times as long as a step of the answers to other requests. So a thread reads them beforehand, of
one adapter at a time.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from peft import LoraConfig

from auctune.domain.errors import InputError
from auctune.domain.start_adapter import StartAdapter
from auctune.train.adapter_files import read_start
from auctune.train.base import Base
from auctune.train.multilora.adapters import AdaptedModel
from auctune.train.multilora.backends import choose_backend

_MAX_ADAPTERS = 32

Files = tuple[StartAdapter, dict[str, NDArray[np.float32]]]
"""An adapter and its weights, as of `read_start`."""

Settings = tuple[int, float, bool, tuple[str, ...]]
"""Rank, alpha, whether it is rank-stabilized, target modules: what weights can be exchanged for."""


@dataclass(frozen=True, slots=True)
class _Fetched:
    """Files that a thread reads, or has read."""

    path: Path
    files: "Future[Files]"


class AdapterPool:
    """Adapters on a base, by their files.

    Args:
        base: that they were trained on.
        max_bytes: of the weights of all adapters; those in use stay beyond that.
        max_adapters: likewise.
        checks_base: whether they must have been trained on the base in this number type.

    Attributes:
        model: the base with the adapters.
        read_seconds: CPU time that it took to read the files that were read last.
    """

    def __init__(
        self,
        base: Base,
        max_bytes: int,
        *,
        max_adapters: int = _MAX_ADAPTERS,
        checks_base: bool = True,
    ) -> None:
        self.model = AdaptedModel(base.model, choose_backend("auto", base.device, base.dtype))
        self._base = base
        self._max_bytes = max_bytes
        self._max_adapters = max_adapters
        self._checks_base = checks_base
        self._names: OrderedDict[Path, str] = OrderedDict()
        self._settings: dict[str, Settings] = {}
        self._numbers = count()
        self._thread = ThreadPoolExecutor(1, "adapters")
        self._fetched: _Fetched | None = None
        self._clock: int | None = None
        self.read_seconds = 0.0

    @property
    def thread_seconds(self) -> float:
        """CPU time that the thread which reads files has taken."""
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)

    def has(self, path: Path) -> bool:
        """Return whether the adapter of an archive or folder is loaded."""
        return path in self._names

    def can_load(self, path: Path) -> bool:
        """Return whether an adapter is loaded, or its files are read."""
        fetched = self._fetched
        is_read = fetched is not None and fetched.path == path and fetched.files.done()
        return is_read or self.has(path)

    def fetch(self, path: Path) -> None:
        """Have the files of an adapter read, unless those of another one are being read.

        Those that have been read and not loaded are dropped.
        """
        fetched = self._fetched
        if fetched is None or (fetched.path != path and fetched.files.done()):
            self._fetched = _Fetched(path, self._thread.submit(self._read, path))

    def _read(self, path: Path) -> Files:
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        begun = time.thread_time()
        try:
            return read_start(path, "model")
        finally:
            self.read_seconds = time.thread_time() - begun

    def wait(self, seconds: float) -> None:
        """Wait so long at most while files are being read."""
        if self._fetched is not None:
            wait([self._fetched.files], seconds)

    def load(self, path: Path, in_use: Collection[str]) -> str:
        """Return the name of an adapter; load it if its files are read and it is not here.

        Args:
            path: of its files, which never change.
            in_use: names of the adapters that must stay.

        Raises:
            InputError: naming `model`, if it is not an adapter of the base.
        """
        if path not in self._names:
            fetched, self._fetched = self._fetched, None
            assert fetched is not None
            assert fetched.path == path
            self._names[path] = self._load(*fetched.files.result(), in_use)
        self._names.move_to_end(path)
        name = self._names[path]
        for other, unused in list(self._names.items()):
            if not self._is_full(0, 0):
                break
            if unused != name and unused not in in_use:
                del self._names[other]
                self._remove(unused)
        return name

    def _is_full(self, num_more: int, more_bytes: int) -> bool:
        num_bytes = sum(adapter.values.nbytes for adapter in self.model.adapters.values())
        num_adapters = len(self.model.adapters)
        return num_adapters + num_more > self._max_adapters or (
            num_bytes + more_bytes > self._max_bytes
        )

    def _load(
        self, start: StartAdapter, weights: dict[str, NDArray[np.float32]], in_use: Collection[str]
    ) -> str:
        if self._checks_base:
            start.check_base(self._base.digest, "model")
        settings = start.rank, start.alpha, start.use_rslora, tuple(start.target_modules)
        size = self._base.dtype.itemsize
        num_bytes = size * sum(values.size for values in weights.values())
        name = self._take_unused(settings, in_use) if self._is_full(1, num_bytes) else None
        if name is None:
            name = self._add(settings)
        try:
            adapter = self.model.adapters[name]
            start.check_shapes(adapter.shapes, "model")
            for key, values in adapter.named(adapter.values).items():
                values.copy_(torch.from_numpy(weights[key]))
        except BaseException:
            self._remove(name)
            raise
        return name

    def _take_unused(self, settings: Settings, in_use: Collection[str]) -> str | None:
        """Return the name of an adapter of these settings whose weights another one may replace."""
        for path, name in self._names.items():
            if self._settings[name] == settings and name not in in_use:
                del self._names[path]
                return name
        return None

    def _add(self, settings: Settings) -> str:
        """Return the name of a new adapter."""
        rank, alpha, use_rslora, target_modules = settings
        config = LoraConfig(
            task_type="CAUSAL_LM",
            r=rank,
            lora_alpha=alpha,
            use_rslora=use_rslora,
            target_modules=list(target_modules) or "all-linear",
        )
        name = f"adapter-{next(self._numbers)}"
        try:
            self.model.add(name, config, seed=0, trains=False)
        except InputError as error:
            raise error.within("model") from None
        self._settings[name] = settings
        return name

    def _remove(self, name: str) -> None:
        self.model.remove(name)
        del self._settings[name]
