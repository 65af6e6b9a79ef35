"""Settings of a job's training, resolved from its request; its submission; limits of devices.

Limits come from the device profile, and keep one job from blocking a device that others use: an
adapter must fit into memory and not be larger than its base, a batch holds each row at most once,
and where jobs share a device by time, an optimizer step must fit into a quantum.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import InputError, Money
from auctune.domain.data_size import DataSize
from auctune.domain.dataset import DEFAULT_MAX_LENGTH
from auctune.domain.training import TrainingConfig, check_batch_size
from auctune.files.device_profile import Profile
from auctune.files.schema import hyperparameters_of
from auctune.service.jobs.request import (
    Hyperparameters,
    IdempotencyKey,
    JobRequest,
    PreferenceHyperparameters,
)


@dataclass(frozen=True, slots=True)
class Training(TrainingConfig):
    """Settings of one adapter's training: hyperparameters, files, and its share of a node.

    Attributes:
        data: id of the training file.
        validation: id of the validation file, or None.
        truncate: whether more rows than usual may be cut at `max_length`.
        share: of a node's compute that it takes at most, in (0, 1].
        repair: whether vendors may repair the data.
        start_from: id of the file with the adapter that it starts from, or None.
        start_digest: of that adapter; see `StartAdapter`.
    """

    data: str
    validation: str | None = None
    truncate: bool = False
    share: float = 0.25
    repair: bool = False
    start_from: str | None = None
    start_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """A request for a job that a zone has accepted for a decision.

    Attributes:
        record: what is recorded of the request; see `auctune.service.jobs.terms.request_record`.
        key: idempotency key of the request, or None.
        is_pending: whether the job is recorded already, and waits for a decision.
    """

    job: str
    owner: str
    training: Training
    record: dict[str, Any]
    key: IdempotencyKey | None = None
    is_pending: bool = False

    @property
    def api_key(self) -> str | None:
        """Id of the API key that the job was submitted with, if that is recorded."""
        return self.record.get("key")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneBid:
    """A job whose data have been inspected, as a zone decides on it. Each kind adds its own fields.

    Attributes:
        remaining_budget: returns what remains of the owner's budget, or None without a budget.
    """

    job: str
    owner: str
    training: Training
    request: dict[str, Any] = field(default_factory=dict)
    remaining_budget: Callable[[], Money | None] = lambda: None
    idempotency_key: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings of a zone for what a request leaves open.

    Attributes:
        epochs, batch_size, max_length: see `Training`.
        learning_rate: at a multiplier of 1.
        share: of a node that a task takes at most.
        context_tokens: of the base, or None without a limit.
        base_digest: of the base, or None if no job starts from an adapter of it.
    """

    epochs: int = 3
    batch_size: int = 8
    max_length: int = DEFAULT_MAX_LENGTH
    learning_rate: float = 1e-3
    share: float = 0.25
    context_tokens: int | None = None
    base_digest: str | None = None

    @property
    def length(self) -> int:
        return min(self.max_length, self.context_tokens or self.max_length)


def resolve_training(request: JobRequest, defaults: Defaults) -> Training:
    """Return the settings of a request's training; without a seed, a random one is drawn.

    Raises:
        InputError: if they contradict the model that it starts from, or that is of another base.
    """
    chosen, terms = request.hyperparameters_used, request.market
    lora = terms.lora
    length = lora.max_length or defaults.length
    resolved = hyperparameters_of(lora) | {
        "method": "supervised" if request.method is None else request.method.type,
        "epochs": defaults.epochs if chosen.n_epochs == "auto" else chosen.n_epochs,
        "batch_size": defaults.batch_size if chosen.batch_size == "auto" else chosen.batch_size,
        "learning_rate": lora.learning_rate or _rate(chosen, defaults),
        "max_length": min(length, defaults.context_tokens or length),
        "seed": secrets.randbelow(2**31) if request.seed is None else request.seed,
    }
    check_batch_size("hyperparameters.batch_size", resolved["method"], resolved["batch_size"])
    if isinstance(chosen, PreferenceHyperparameters) and chosen.beta != "auto":
        resolved["beta"] = chosen.beta
    start = request.start
    if start is not None:
        assert defaults.base_digest is not None
        start.adapter.check_base(defaults.base_digest, "model")
        given = {name: resolved[name] for name in lora.model_fields_set & resolved.keys()}
        resolved |= start.adapter.settings(given, "market.lora.")
    return Training(
        data=request.training_file,
        validation=request.validation_file,
        truncate=lora.truncate,
        share=terms.share or defaults.share,
        repair=terms.repair,
        start_from=None if start is None else start.file,
        start_digest=None if start is None else start.adapter.digest,
        **resolved,
    )


def _rate(chosen: Hyperparameters, defaults: Defaults) -> float:
    if chosen.learning_rate_multiplier == "auto":
        return defaults.learning_rate
    return chosen.learning_rate_multiplier * defaults.learning_rate


# Scales of nf4 have 0.127 bits a number.
_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "nf4": (4 + 0.127) / 8}

# Cost of forward and backward in forward passes, for frozen and for trained weights.
_FROZEN_PASSES, _TRAINED_PASSES = 2.0, 3.0


def check_adapter(training: Training, profile: Profile, room_gb: float) -> float:
    """Return the memory of a job's adapter, gradients and optimizer state, in GB.

    Raises:
        InputError: if it exceeds `room_gb`, which the base leaves free on the device, or the base's
            size, or a target module does not exist in the base.
    """
    try:
        memory_gb = profile.task_memory_gb(
            training.rank,
            training.target_modules,
            keeps_start=training.method != "supervised" and training.start_from is not None,
        )
    except InputError as error:
        # The profile names its own argument, not the field of the request.
        place = f"market.lora.{error.place}"
        raise InputError(place, error.found, error.expected) from None
    if memory_gb > room_gb:
        found = f"{training.rank} needs {memory_gb:.3g} GB, more than any node has free"
        raise InputError("market.lora.rank", found, f"an adapter of at most {room_gb:.3g} GB")
    num_parameters, num_base = _num_parameters(training, profile), _num_base_parameters(profile)
    if num_base and num_parameters > num_base:
        found = f"{training.rank} makes an adapter of {num_parameters:.3g} parameters"
        max_rank = int(num_base * training.rank // num_parameters)
        expected = f"at most {max_rank} for these modules: the base has {num_base:.3g} parameters"
        raise InputError("market.lora.rank", found, expected)
    return memory_gb


def check_batch(training: Training, size: DataSize) -> None:
    """Check that a batch does not hold rows twice; the default size is always accepted."""
    limit = max(size.rows, Defaults().batch_size)
    if training.batch_size > limit:
        expected = f"at most {limit}: the training file has {size.rows} rows"
        raise InputError("hyperparameters.batch_size", f"{training.batch_size}", expected)


def check_step(
    training: Training, size: DataSize, profile: Profile, quantum_seconds: float
) -> float:
    """Return the seconds of an optimizer step without other jobs on the device.

    Raises:
        InputError: if a step takes longer than a quantum, the shortest time on the device.
    """
    seconds = step_seconds(training, size, profile)
    if seconds > quantum_seconds:
        tokens = training.batch_size * size.mean_tokens
        found = f"{training.batch_size}, or {tokens:.0f} tokens, takes {seconds:.3g} s a step"
        expected = (
            f"steps of at most {quantum_seconds:g} s, the zone's slot: a smaller batch, or rank"
        )
        raise InputError("hyperparameters.batch_size", found, expected)
    return seconds


def step_seconds(training: Training, size: DataSize, profile: Profile) -> float:
    """Return the estimated seconds of an optimizer step without other jobs on the device.

    A profile that does not know what larger adapters cost was measured with small ones. A larger
    one adds three passes over its own parameters for each token; the frozen base takes two.
    """
    seconds = profile.batch_seconds(profile.batch(training, size))
    num_base = _num_base_parameters(profile)
    if profile.parameter_seconds or not num_base:
        return seconds
    extra = _TRAINED_PASSES / _FROZEN_PASSES * _num_parameters(training, profile) / num_base
    tokens = max(1, round(training.batch_size * size.mean_tokens))
    return seconds + extra * profile.token_seconds * tokens / (1 - profile.margin)


def _num_parameters(training: Training, profile: Profile) -> float:
    return training.rank * profile.adapted_features(training.target_modules)


def _num_base_parameters(profile: Profile) -> float:
    """Return the number of parameters of the base, or 0 if its dtype is unknown."""
    width = _DTYPE_BYTES.get(profile.origin.dtype.removeprefix("torch."))
    return 0.0 if width is None else profile.base_weights_gb * 1e9 / width
