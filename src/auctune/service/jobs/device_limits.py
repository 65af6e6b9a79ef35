"""Limits on a job, by its device's profile, in every zone that trains adapters of a language model.

They keep a single job from blocking a device that others use as well: an adapter fits into memory
and is no larger than its base, a batch holds each row once at most, and where a zone shares a
device by time, an optimizer step fits into a quantum.
"""

import math

from auctune.device_profile import Profile
from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.service.jobs.training import Defaults, Training

_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

# Forward and backward of a frozen weight, and of one that is trained, in passes of the forward.
_FROZEN_PASSES, _TRAINED_PASSES = 2.0, 3.0


def check_adapter(training: Training, profile: Profile, room_gb: float) -> float:
    """Return the memory of a job's adapter, gradients and optimizer state, in GB.

    Args:
        training: what to train.
        profile: of the device.
        room_gb: memory that the device has beside the base.

    Raises:
        InputError: if that does not fit, if the adapter is larger than the base, or if it names a
            module that the base has not.
    """
    try:
        memory_gb = profile.task_memory_gb(training.rank, training.target_modules)
    except InputError as error:
        # A profile does not know what requests call it.
        place = f"market.lora.{error.place}"
        raise InputError(place, error.found, error.expected) from None
    if memory_gb > room_gb:
        found = f"{training.rank} needs {memory_gb:.3g} GB, more than any node has left"
        raise InputError("market.lora.rank", found, f"an adapter of at most {room_gb:.3g} GB")
    num_parameters, num_base = _num_parameters(training, profile), _num_base_parameters(profile)
    if num_base and num_parameters > num_base:
        found = f"{training.rank} makes an adapter of {num_parameters:.3g} parameters"
        most = int(num_base * training.rank // num_parameters)
        expected = f"at most {most} for these modules: the base has {num_base:.3g} parameters"
        raise InputError("market.lora.rank", found, expected)
    return memory_gb


def check_batch(training: Training, size: DataSize) -> None:
    """Refuse a batch that would hold rows twice; the default size is always accepted.

    Raises:
        InputError: naming the batch size.
    """
    most = max(size.rows, Defaults().batch_size)
    if training.batch_size > most:
        expected = f"at most {most}: the training file has {size.rows} rows"
        raise InputError("hyperparameters.batch_size", f"{training.batch_size}", expected)


def check_step(
    training: Training, size: DataSize, profile: Profile, quantum_seconds: float
) -> float:
    """Return how long an optimizer step takes alone on the device, in seconds.

    Args:
        training: what to train; its rank and modules are within `check_adapter`.
        size: of its data.
        profile: of the device.
        quantum_seconds: the shortest time for which the device is given to a job.

    Raises:
        InputError: if a step takes longer than a quantum.
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
    """Return the profile's estimate of an optimizer step, alone on the device.

    A profile is measured with small adapters. A larger one costs three passes over its own
    parameters for each token, where the frozen base costs two over its.
    """
    tokens = max(1, round(training.batch_size * size.mean_tokens))
    passes = math.ceil(tokens / profile.micro_batch_tokens)
    num_base = _num_base_parameters(profile)
    extra = _num_parameters(training, profile) / num_base if num_base else 0.0
    token_seconds = profile.token_seconds * (1.0 + _TRAINED_PASSES / _FROZEN_PASSES * extra)
    return (profile.step_seconds * passes + token_seconds * tokens) / (1.0 - profile.margin)


def _num_parameters(training: Training, profile: Profile) -> float:
    return training.rank * profile.adapted_features(training.target_modules)


def _num_base_parameters(profile: Profile) -> float:
    """Return the size of the base; 0 where its dtype is not known."""
    width = _DTYPE_BYTES.get(profile.origin.dtype.removeprefix("torch."))
    return 0.0 if width is None else profile.base_weights_gb * 1e9 / width
