"""What one device can do with one base model, as measured: the numbers behind a node type.

A pass over n tokens of k adapters, of P_i parameters with n_i tokens each, in rows of l_j tokens,
takes

    t = a + b n + c k + d sum n_i P_i + q sum l_j^2        seconds,

with each adapter's optimizer step in c, and a micro-batch holds at most m tokens. Work is counted
in tokens of the sweep: one adapter of rank 8, rows of l tokens, passes of m tokens, so that one
takes

    u = a / m + b + c / m + d P_8 + q l                    seconds.

A token of a job of P parameters, with n tokens an optimizer batch, is sold as

    v = (a / m + b + c / n + d P + q sum l_j^2 / n) / u

of these. With h seconds to load a task and write its checkpoint, margin e and samples of s tokens,

    C = (slot - k h) (1 - e) / (u s)                       samples per slot, k tasks in turn
    s_i = min(alone, share C)                              samples per slot of one task
    alone = (slot - h) (1 - e) n v / (s t(n))              t(n) of ceil(n / m) passes

A plan may change a task's node from slot to slot, or leave slots out, so each slot has the time to
load its tasks. A task of rank r takes r * (features in + out of its modules) * bytes per parameter
of memory, next to r_b, the base with one micro-batch's activations (Zheng et al., ICPP 2024,
constraint 4g counts both). It is a JSON file; this module needs no torch.
"""

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter

from auctune.domain.checks import check_count, check_finite, check_positive
from auctune.domain.data_size import DataSize
from auctune.domain.errors import InputError
from auctune.domain.training import TrainingConfig
from auctune.files.atomic import write_atomically
from auctune.files.schema import CheckpointInterval, check_json

# Float32 words that are kept for each parameter of an adapter.
OPTIMIZER_WORDS = {"adamw": 4, "sgd": 2}  # parameter, gradient and, of AdamW, two moments
# Of the adapters by which work is counted.
REFERENCE_RANK = 8
# A quiet machine measures 0.1 to 0.3.
LARGE_MARGIN = 0.3
STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True)
class Origin:
    """Where a profile comes from: it holds for the like of this alone.

    Attributes:
        measured_at: date and time, ISO 8601 in UTC.
        device_name: of the GPU, or the CPU's architecture.
        num_threads: that torch computed with on a CPU.
        base_name: as the user named it.
        architecture: of the base: SHA-256 over its configuration and its weights' names, types and
            shapes. What their values are changes no pass's time, and they differ from processor to
            processor where a base is trained on the spot.
        dtype: of the base's weights.
        attention: its implementation, by transformers' name.
        versions: of Python and the libraries.
        backend, gradient_checkpointing: as set for the trainer. The latter is n if activations of
            every n-th layer are recomputed, 0 if of none.
        num_devices: that computed together, each in a process of its own with these threads.
    """

    __pydantic_config__ = STRICT

    measured_at: str
    device: Literal["cpu", "cuda"]
    device_name: str
    num_threads: int
    base_name: str
    architecture: str
    dtype: str
    attention: str
    versions: Mapping[str, str]
    backend: str = "auto"
    gradient_checkpointing: CheckpointInterval = 0
    num_devices: int = 1

    @property
    def key(self) -> str:
        """A name for all that a profile depends on: everything here but date and base's name."""
        parts = asdict(self)
        del parts["measured_at"], parts["base_name"]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Batch:
    """An optimizer batch of one adapter, as far as its time depends on it.

    Attributes:
        tokens: of its rows, >= 1.
        parameters: of the adapter.
        square_tokens: sum of the squares of its rows' tokens.
    """

    tokens: int
    parameters: float
    square_tokens: float

    def __post_init__(self) -> None:
        check_count(self.tokens, "batch_tokens", 1)


@dataclass(frozen=True)
class SweepPoint:
    """The median time of passes over so many tokens."""

    __pydantic_config__ = STRICT

    tokens: int
    seconds: float


@dataclass(frozen=True)
class Mix:
    """Tasks trained together at random, as predicted by a fit without them, and as measured."""

    __pydantic_config__ = STRICT

    num_tasks: int
    tokens: int
    predicted_seconds: float
    measured_seconds: float


@dataclass(frozen=True)
class Profile:
    """What a device can do with a base.

    Attributes:
        memory_gb: what base and tasks can share (C_km); of each device, where there are several.
        base_weights_gb: the base's weights.
        activations_gb: of one micro-batch at the token budget, at the peak of its pass, and what
            CUDA graphs keep.
        features: input and output features, summed over a module's layers, by its name in the
            model with a * for each layer's number; of all modules that can be adapted.
        default_modules: names of those that get an adapter if a task names none.
        bytes_per_parameter: of an adapter, its gradient and AdamW's moments.
        step_seconds, token_seconds: a and b of the time of a pass.
        micro_batch_tokens: the token budget (m), where the device is busy and memory is left; of
            all devices together.
        base_load_seconds: to load the base, once a process.
        task_load_seconds: to take up a task from its checkpoint.
        checkpoint_seconds: to write one.
        suspend_seconds: to write one and let go of the task.
        tasks_per_slot: how many tasks a slot is taken to have (k).
        margin: share of the predicted speed that is not sold: the 90% quantile of the errors on
            `mixes`.
        sweep, mixes: what was measured.
        not_measured: what the time for measuring was too short for; in its place stands what sells
            too little rather than too much.
        adapter_seconds, parameter_seconds, square_seconds: c, d and q of the time of a pass.
        row_tokens: of the rows of the sweep's longer passes (l).
        resident_seconds: that a task takes from training while its checkpoint is written; `None`:
            nothing is trained then, and tasks are put away at the end of each slot.
    """

    __pydantic_config__ = STRICT

    origin: Origin
    memory_gb: float
    base_weights_gb: float
    activations_gb: float
    features: Mapping[str, int]
    default_modules: tuple[str, ...]
    bytes_per_parameter: float
    step_seconds: float
    token_seconds: float
    micro_batch_tokens: int
    base_load_seconds: float
    task_load_seconds: float
    checkpoint_seconds: float
    suspend_seconds: float
    tasks_per_slot: int
    margin: float
    sweep: tuple[SweepPoint, ...]
    mixes: tuple[Mix, ...]
    not_measured: tuple[str, ...] = ()
    adapter_seconds: float = 0.0
    parameter_seconds: float = 0.0
    square_seconds: float = 0.0
    row_tokens: int = 1
    resident_seconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith(("_seconds", "_gb")) and value is not None:
                check_finite(value, field.name, "a number >= 0")
        for name in ("memory_gb", "token_seconds", "bytes_per_parameter"):
            check_positive(getattr(self, name), name, "a number > 0")
        for name in ("micro_batch_tokens", "tasks_per_slot", "row_tokens"):
            if getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)}", "a whole number >= 1")
        if not 0 <= self.margin < 1:
            raise InputError("margin", f"{self.margin}", "a share in [0, 1)")
        for name, features in self.features.items():
            if features < 1:
                raise InputError(f"features.{name}", f"{features}", "a whole number >= 1")

    def warnings(self) -> list[str]:
        """Return what whoever sells this device should know: what is left unsold, and why."""
        found = []
        if self.margin > LARGE_MARGIN and self.mixes:
            found.append(
                f"{self.margin:.0%} of the measured speed is kept back and not sold, as mixed "
                "loads ran so much slower than predicted: measure again with nothing else running "
                "(auctune profile), and name the file in the setting `profile` of the node type."
            )
        if self.not_measured:
            missing = ", ".join(self.not_measured)
            found.append(
                f"not measured within the time: {missing}; so {self.margin:.0%} of the speed is "
                "kept back, and more may stay unsold: give it more time "
                "(auctune profile --seconds)."
            )
        return found

    def at_share(self, share: float) -> "Profile":
        """Return the profile of a worker that has a share of the device's time, in (0, 1]."""
        if share == 1.0:
            return self
        seconds = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name.endswith("_seconds") and getattr(self, field.name) is not None
        }
        return replace(self, **{name: value / share for name, value in seconds.items()})

    def check_settings(self, place: str, gradient_checkpointing: int, num_devices: int = 1) -> None:
        """Refuse a profile that was measured with other settings than what will train has.

        Args:
            place: how errors call the profile.
            gradient_checkpointing, num_devices: as of `Origin`.

        Raises:
            InputError: if speed and memory are those of another setting.
        """
        if self.origin.num_devices != num_devices:
            raise InputError(
                place,
                f"was measured with devices = {self.origin.num_devices}",
                f"devices = {num_devices}, as it is set here: measure again by auctune profile "
                f"--devices {num_devices}",
            )
        found = self.origin.gradient_checkpointing
        if found != gradient_checkpointing:
            raise InputError(
                place,
                f"was measured with gradient_checkpointing = {found}",
                f"gradient_checkpointing = {gradient_checkpointing}, as it is set here: measure "
                f"again by auctune profile --gradient-checkpointing {gradient_checkpointing}",
            )

    def processor_warning(self, processor: str) -> str | None:
        """Return a warning if the profile is of a CPU, and of another than this `processor`."""
        if self.origin.device != "cpu" or self.origin.device_name == processor:
            return None
        return (
            f"was measured on another processor ({self.origin.device_name}; here {processor}): "
            "slots may take longer than sold"
        )

    @property
    def base_memory_gb(self) -> float:
        """r_b: the base's weights and, charged once, the activations of one micro-batch."""
        return self.base_weights_gb + self.activations_gb

    def waiting_for_checkpoints(self) -> "Profile":
        """Return the profile of a node that trains nothing while checkpoints are written."""
        if self.resident_seconds is None:
            return self
        return replace(self, resident_seconds=max(self.resident_seconds, self.checkpoint_seconds))

    @property
    def task_overhead_seconds(self) -> float:
        """h: what a task takes of a slot, besides its passes."""
        stay = self.suspend_seconds if self.resident_seconds is None else self.resident_seconds
        return self.task_load_seconds + stay

    def batch(self, training: TrainingConfig, size: DataSize, rows: float | None = None) -> Batch:
        """Return an average batch of a job.

        Args:
            training: rank, modules and batch size of the job.
            size: of its data.
            rows: of the batch; `None`: those of an optimizer batch.

        Raises:
            InputError: as `adapted_features`.
        """
        rows = training.batch_size if rows is None else rows
        return Batch(
            tokens=max(1, round(rows * size.mean_tokens)),
            parameters=training.rank * self.adapted_features(training.target_modules),
            square_tokens=rows * size.mean_square,
        )

    def reference_batch(self, tokens: int | None = None) -> Batch:
        """Return a batch of the sweep's own job, of so many tokens; `None`: of a full pass."""
        tokens = tokens or self.micro_batch_tokens
        modules = () if self.default_modules else tuple(self.features)
        parameters = REFERENCE_RANK * self.adapted_features(modules) if self.features else 0
        # Each device has a row of the sweep's smallest passes.
        row_tokens = max(1, min(tokens // self.origin.num_devices, self.row_tokens))
        return Batch(tokens, parameters, tokens * row_tokens)

    def batch_seconds(self, batch: Batch) -> float:
        """Return the seconds of an optimizer batch alone on the device, at the speed sold."""
        return self._measured_seconds(batch) / (1 - self.margin)

    def token_cost(self, batch: Batch) -> float:
        """Return what a token of such batches is sold as, in tokens of the sweep (v).

        Other jobs fill its passes.
        """
        own, reference = (
            self._token_seconds(one) + self.step_seconds / self.micro_batch_tokens
            for one in (batch, self.reference_batch())
        )
        return own / reference

    def tokens_per_second(self, batch: Batch | None = None) -> float:
        """Return the speed, less the margin, of such optimizer batches.

        Without a batch it is that of full passes of the sweep.
        """
        batch = batch or self.reference_batch()
        return (1 - self.margin) * batch.tokens / self._measured_seconds(batch)

    def compute(self, slot_seconds: float, sample_tokens: float) -> float:
        """C_kp: samples per slot that a node trains on, all its tasks together.

        Args:
            slot_seconds: length of a slot.
            sample_tokens: of a sample, in tokens of the sweep, > 0.

        Raises:
            InputError: if a slot is too short to load tasks and write their checkpoints.
        """
        check_positive(sample_tokens, "sample_tokens", "tokens of a sample > 0")
        usable = self._usable_seconds(slot_seconds, self.tasks_per_slot)
        return usable * self.tokens_per_second() / sample_tokens

    def throughput(
        self, slot_seconds: float, sample_tokens: float, batch: Batch, share: float = 0.25
    ) -> float:
        """s_ik: samples per slot of one task.

        Args:
            slot_seconds, sample_tokens: as for `compute`.
            batch: an optimizer batch of the task.
            share: of the node's compute that it may take at most, in (0, 1].

        Raises:
            InputError: as `compute`, or for a share out of range.
        """
        if not 0 < share <= 1:
            raise InputError("share", f"{share!r}", "a share in (0, 1]")
        compute = self.compute(slot_seconds, sample_tokens)
        alone = self._usable_seconds(slot_seconds, 1) * self.tokens_per_second(batch)
        return min(alone * self.token_cost(batch) / sample_tokens, share * compute)

    def task_memory_gb(
        self,
        rank: int,
        target_modules: Collection[str] = (),
        optimizer: str = "adamw",
        *,
        keeps_start: bool = False,
    ) -> float:
        """r_i: memory of one task's adapter, gradients and optimizer.

        Args:
            target_modules: names, or ends of names, of modules; none: all but the output layer.
            optimizer: "adamw" or "sgd".
            keeps_start: whether the weights that it starts from are kept beside, as for the
                references of pairs.

        Raises:
            InputError: if the base has no such module, or the optimizer is unknown.
        """
        if optimizer not in OPTIMIZER_WORDS:
            known = ", ".join(map(repr, OPTIMIZER_WORDS))
            raise InputError("optimizer", f"{optimizer!r} is unknown", f"one of {known}")
        words = (OPTIMIZER_WORDS[optimizer] + keeps_start) / OPTIMIZER_WORDS["adamw"]
        features = self.adapted_features(target_modules)
        return rank * features * self.bytes_per_parameter * words / 1e9

    def adapted_features(self, target_modules: Collection[str] = ()) -> int:
        """Input and output features of all modules that `target_modules` name, summed.

        A module that is named with its layer's number counts for all layers.

        Raises:
            InputError: if a name fits no module.
        """
        if not (target_modules or self.default_modules):
            raise InputError("target_modules", "is empty", "names, as PEFT has none for this base")
        return adapted_features(self.features, target_modules or self.default_modules)

    def to_json(self) -> str:
        """The profile as a JSON text."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, place: str) -> "Profile":
        """The profile in a JSON text.

        Raises:
            InputError: naming `place` and the field's path.
        """
        return check_json(_ADAPTER, text, place)

    def _usable_seconds(self, slot_seconds: float, num_tasks: int) -> float:
        overhead = num_tasks * self.task_overhead_seconds
        if not slot_seconds > overhead:
            raise InputError(
                "slot_seconds",
                f"{slot_seconds:g} is too short to load {num_tasks} tasks and write their "
                "checkpoints",
                f"more than {overhead:.3g}",
            )
        return slot_seconds - overhead

    def _measured_seconds(self, batch: Batch) -> float:
        """Seconds of a batch alone on the device, at the speed measured."""
        passes = math.ceil(batch.tokens / self.micro_batch_tokens)
        return self.step_seconds * passes + self._token_seconds(batch) * batch.tokens

    def _token_seconds(self, batch: Batch) -> float:
        """Seconds of a token of such batches, without the time of a pass as such."""
        return (
            self.adapter_seconds / batch.tokens
            + (self.token_seconds + self.parameter_seconds * batch.parameters)
            + self.square_seconds * (batch.square_tokens / batch.tokens)
        )


def job_token_cost(training: TrainingConfig, size: DataSize, profiles: Iterable[Profile]) -> float:
    """Return what a token of a job is sold as, in tokens of the sweep.

    The job may run on any of the devices: it is the one on which a token costs most that counts.
    """
    return max(profile.token_cost(profile.batch(training, size)) for profile in profiles)


def adapted_features(features: Mapping[str, int], target_modules: Iterable[str]) -> int:
    """Input and output features of all modules that names fit; see `Profile.adapted_features`.

    Args:
        features: as of `Profile`.
        target_modules: names, or ends of names, of modules.

    Raises:
        InputError: if a name fits no module.
    """
    chosen: set[str] = set()
    for target in target_modules:
        end = module_pattern(target)
        found = {name for name in features if name == end or name.endswith(f".{end}")}
        if not found:
            ends = sorted({name.rpartition(".")[2] for name in features})
            raise InputError("target_modules", f"{target!r} fits no module", f"one of {ends}")
        chosen |= found
    return sum(features[name] for name in chosen)


def physical_devices(device: str, count: int = 1) -> tuple[str, ...]:
    """Return the devices of this machine that a node computes on.

    Args:
        device: the first one, as torch names it; "cuda" is "cuda:0".
        count: of devices; those after the first have the next numbers. All on a CPU are one.
    """
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return (device,)
    first = int(number or 0)
    return tuple(f"cuda:{first + index}" for index in range(count))


def read_profile(path: Path) -> Profile:
    """The profile in a file.

    Raises:
        InputError: naming the file and the field's path.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise InputError(str(path), reason, "a profile, as `auctune profile` writes it") from None
    return Profile.from_json(text, str(path))


def write_profile(profile: Profile, path: Path) -> None:
    """Write a profile to a file, which holds the old one or the new one at any time."""
    write_atomically(path, profile.to_json().encode())


_ADAPTER = TypeAdapter(Profile)


def module_pattern(name: str) -> str:
    """Return a module's name with * for each number, of a layer or an expert."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)
