"""Limits on jobs that train adapters of a language model, from the device profile.

They keep one job from blocking a device that others use: an adapter must fit into memory and not
be larger than its base, a batch holds each row at most once, and where jobs share a device by time,
an optimizer step must fit into a quantum.
"""

from auctune.device_profile import Profile
from auctune.domain import InputError
from auctune.domain.data_size import DataSize
from auctune.service.jobs.training import Defaults, Training

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
            keeps_start=training.method == "dpo" and training.start_from is not None,
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
