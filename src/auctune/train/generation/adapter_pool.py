"""Adapters that a process has loaded, the least recently used of them dropped for others."""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import replace
from itertools import count
from pathlib import Path

import torch
from peft import LoraConfig

from auctune.domain.errors import InputError
from auctune.train.adapter_files import read_start
from auctune.train.base import Base
from auctune.train.multilora.adapters import AdaptedModel
from auctune.train.multilora.backends import choose_backend


class AdapterPool:
    """Adapters on a base, by their files.

    Args:
        base: that they were trained on.
        max_bytes: of the weights of all adapters; one that is in use stays beyond that.

    Attributes:
        model: the base with the adapters.
    """

    def __init__(self, base: Base, max_bytes: int) -> None:
        self.model = AdaptedModel(base.model, choose_backend("auto", base.device, base.dtype))
        self._base = base
        self._max_bytes = max_bytes
        self._names: OrderedDict[Path, str] = OrderedDict()
        self._numbers = count()

    def load(self, path: Path, in_use: Collection[str]) -> str:
        """Return the name of the adapter of an archive or folder; load it if it is not here.

        Args:
            path: of its files, which never change.
            in_use: names of the adapters that must stay.

        Raises:
            InputError: naming `model`, if it is not an adapter of the base.
        """
        name = self._names.get(path)
        if name is None:
            name = self._load(path)
            self._names[path] = name
        self._names.move_to_end(path)
        for other, unused in list(self._names.items()):
            if self._num_bytes() <= self._max_bytes:
                break
            if unused != name and unused not in in_use:
                self.model.remove(unused)
                del self._names[other]
        return name

    def _num_bytes(self) -> int:
        return sum(adapter.values.nbytes for adapter in self.model.adapters.values())

    def _load(self, path: Path) -> str:
        start, weights = read_start(path, "model")
        start.check_base(self._base.digest, "model")
        config = LoraConfig(
            task_type="CAUSAL_LM",
            r=start.rank,
            lora_alpha=start.alpha,
            use_rslora=start.use_rslora,
            target_modules=list(start.target_modules) or "all-linear",
        )
        name = f"adapter-{next(self._numbers)}"
        try:
            adapter = self.model.add(name, config, seed=0)
        except InputError as error:
            raise error.within("model") from None
        try:
            shapes = {key: tuple(one.shape) for key, one in adapter.parameters.items()}
            start.check_shapes(shapes, "model")
            for key, parameter in adapter.parameters.items():
                parameter.data.copy_(torch.from_numpy(weights[key]))
        except BaseException:
            self.model.remove(name)
            raise
        # Nothing trains here: gradients would take as much memory as the weights.
        for parameter in adapter.parameters.values():
            parameter.grad = None
        self.model.adapters[name] = replace(adapter, gradients=adapter.values[:0])
        return name
