"""Devices: what a node of a type can do, and what a task takes of it by batch size and rank.

A workload draws for each task where its batch and its rank stand between the smallest and the
largest, both in [0, 1). A device turns that into samples per slot and GB. Two kinds of files say
how: a few assumed figures, as those that come with auctune, and a profile that `auctune profile`
measured.
"""

import functools
import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import ConfigDict, TypeAdapter

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.files.device_profile import Batch, Profile
from auctune.files.schema import check_json, plain_json

BATCH_SIZES = (1, 2, 4, 8, 16, 32)
RANKS = (4, 8, 16, 32, 64)


class Device(Protocol):
    """A kind of node."""

    @property
    def memory_gb(self) -> float:
        """Memory of a node, the base's included (C_km)."""
        ...

    @property
    def base_memory_gb(self) -> float:
        """Memory of the base (r_b)."""
        ...

    @property
    def power_kw(self) -> float:
        """Power at full load."""
        ...

    def compute(self, slot_seconds: float) -> float:
        """Samples per slot of all tasks together (C_kp)."""
        ...

    def throughput(self, slot_seconds: float, batch: float, share: float) -> float:
        """Samples per slot of one task, `share` of the node's at most (s_ik)."""
        ...

    def sample_cost(self, batch: float) -> float:
        """Samples of the node's compute that a sample of a task takes."""
        ...

    def task_memory_gb(self, batch: float, rank: float) -> float:
        """Memory of one task (r_i)."""
        ...


@dataclass(frozen=True)
class AssumedDevice:
    """A device of assumed figures, each linear in where batch and rank stand.

    Attributes:
        origin: where the figures come from, in words.
        samples, seconds: all tasks of a node together train on so many samples in so many seconds.
        memory_gb, base_memory_gb: of a node, and of the base on it.
        power_kw: at full load.
        alone: share of a node's speed that a task reaches by itself, with the smallest and with
            the largest batch.
        adapter_gb: memory of a task but for its batch, with the smallest and the largest rank.
        batch_gb: memory of a batch with which a task would reach the node's whole speed.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    origin: str
    samples: float
    seconds: float
    memory_gb: float
    base_memory_gb: float
    power_kw: float
    alone: tuple[float, float]
    adapter_gb: tuple[float, float]
    batch_gb: float

    def __post_init__(self) -> None:
        if not self.origin.strip():
            raise InputError("origin", "is empty", "where the figures come from")
        for name in ("samples", "seconds", "memory_gb"):
            check_positive(getattr(self, name), name, "a number > 0")
        for name in ("base_memory_gb", "power_kw", "batch_gb"):
            check_finite(getattr(self, name), name, "a number >= 0")
        if not 0 < self.alone[0] <= self.alone[1] <= 1:
            raise InputError("alone", f"{list(self.alone)}", "two shares in (0, 1], ascending")
        if not 0 <= self.adapter_gb[0] <= self.adapter_gb[1] < float("inf"):
            raise InputError("adapter_gb", f"{list(self.adapter_gb)}", "two GB >= 0, ascending")

    def compute(self, slot_seconds: float) -> float:
        return self.samples * slot_seconds / self.seconds

    def throughput(self, slot_seconds: float, batch: float, share: float) -> float:
        return min(_between(self.alone, batch), share) * self.compute(slot_seconds)

    def sample_cost(self, batch: float) -> float:
        return 1.0

    def task_memory_gb(self, batch: float, rank: float) -> float:
        return _between(self.adapter_gb, rank) + self.batch_gb * _between(self.alone, batch)


@dataclass(frozen=True)
class ProfiledDevice:
    """A device as measured.

    Attributes:
        profile: what was measured.
        power_kw: at full load; a profile does not say.
        sample_tokens: tokens of a sample on average, > 0.
        batch_sizes, ranks: of tasks, ascending; each as likely as another.
    """

    profile: Profile
    power_kw: float
    sample_tokens: float
    batch_sizes: Sequence[int] = BATCH_SIZES
    ranks: Sequence[int] = RANKS

    def __post_init__(self) -> None:
        check_finite(self.power_kw, "power_kw", "kW >= 0")
        check_positive(self.sample_tokens, "sample_tokens", "tokens of a sample > 0")

    @property
    def memory_gb(self) -> float:
        return self.profile.memory_gb

    @property
    def base_memory_gb(self) -> float:
        return self.profile.base_memory_gb

    def compute(self, slot_seconds: float) -> float:
        """Samples per slot.

        Raises:
            InputError: if a slot is too short to take tasks up and put them away.
        """
        return self.profile.compute(slot_seconds, self.sample_tokens)

    def throughput(self, slot_seconds: float, batch: float, share: float) -> float:
        """Samples per slot of one task with that batch size.

        Raises:
            InputError: as `compute`, or for a share out of range.
        """
        found = self._batch(batch)
        return self.profile.throughput(slot_seconds, self.sample_tokens, found, share)

    def sample_cost(self, batch: float) -> float:
        return self.profile.token_cost(self._batch(batch))

    def task_memory_gb(self, batch: float, rank: float) -> float:
        return self.profile.task_memory_gb(self.ranks[int(rank * len(self.ranks))])

    def _batch(self, batch: float) -> Batch:
        rows = self.batch_sizes[int(batch * len(self.batch_sizes))]
        return self.profile.reference_batch(max(1, round(rows * self.sample_tokens)))


@functools.cache
def shipped_devices() -> Mapping[str, Device]:
    """Return the devices that come with auctune, by name."""
    folder = importlib.resources.files("auctune.sim.workloads") / "devices"
    files = sorted((file for file in folder.iterdir()), key=lambda file: file.name)
    return {
        file.name.removesuffix(".json"): check_json(_ADAPTER, file.read_bytes(), file.name)
        for file in files
        if file.name.endswith(".json")
    }


def read_device(path: Path, power_kw: float | None, sample_tokens: float) -> Device:
    """Return the device in a file: assumed figures, or a profile that was measured.

    Args:
        path: the file.
        power_kw: at full load; of assumed figures None takes their own, a profile has none.
        sample_tokens: tokens of a sample on average, for a profile.

    Raises:
        InputError: naming the file and the field's path.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise InputError(str(path), found, "a device file, or a profile") from None
    if _is_profile(text):
        profile = Profile.from_json(text, str(path))
        if power_kw is None:
            raise InputError("power_kw", f"is not set, and {path} has none", "kW at full load")
        return ProfiledDevice(profile, power_kw, sample_tokens)
    assumed = check_json(_ADAPTER, text, str(path))
    if power_kw is None:
        return assumed
    return AssumedDevice(**{**assumed.__dict__, "power_kw": power_kw})


_ADAPTER = TypeAdapter(AssumedDevice)


def _is_profile(text: bytes) -> bool:
    found = plain_json(text)
    return isinstance(found, dict) and "token_seconds" in found


def _between(ends: tuple[float, float], where: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * where
