"""Hyperparameters of an adapter's training: their only declaration.

A field of `TrainingConfig` has its default, range and description here. The market file, the spot
job file, bundle files, the API's requests, the client and the command line derive their fields from
it; jobs' events and the trainer's `LoraJob` inherit it. So a new hyperparameter is a new field here
and its use in the trainer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from auctune.domain.dataset import DEFAULT_MAX_LENGTH
from auctune.domain.errors import InputError

RateSchedule = Literal["constant", "linear", "cosine"]
Method = Literal["supervised", "dpo", "kto"]
"""Training method: supervised, by pairs of answers (DPO), or by answers with ratings (KTO)."""

# Far above any real value, and small enough that sums of products remain finite.
_MAX = 10**9


@dataclass(frozen=True, slots=True)
class Parameter:
    """Declaration of a hyperparameter.

    Attributes:
        name: of the field.
        kind: its type: `int`, `float`, `bool`, `tuple[str, ...]` or a `Literal` of texts.
        default: its default.
        description: one clause, for references.
        choices: texts of a `Literal`; empty for other types.
        minimum, maximum: inclusive bounds of a number, or `None`.
        above, below: exclusive bounds of a number, or `None`.
        is_shown: whether the service's API shows it in `market.lora` of a job.
    """

    name: str
    kind: Any
    default: Any
    description: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    is_shown: bool = False

    @property
    def expected(self) -> str:
        """The type and range, in words: "a whole number >= 1"."""
        if self.choices:
            return " or ".join(f'"{choice}"' for choice in self.choices)
        if self.kind is bool:
            return "true or false"
        if self.kind not in (int, float):
            return "a list of names"
        noun = "a whole number" if self.kind is int else "a number"
        if self.below is not None:
            return f"{noun} in [{self.minimum:g}, {self.below:g})"
        if self.maximum not in (None, _MAX):
            return f"{noun} from {self.minimum} to {self.maximum}"
        return f"{noun} > {self.above}" if self.minimum is None else f"{noun} >= {self.minimum}"

    def check(self, value: Any) -> None:
        """Check the range of a value.

        Raises:
            InputError: naming the parameter.
        """
        if self.choices:
            is_valid = value in self.choices
        elif self.kind in (int, float):
            # NaN is in no range.
            is_valid = (
                (self.minimum is None or value >= self.minimum)
                and (self.above is None or value > self.above)
                and (self.below is None or value < self.below)
                and (self.maximum is None or value <= self.maximum)
            )
        else:
            is_valid = True
        if not is_valid:
            raise InputError(self.name, f"{value!r}", self.expected)


def _parameter(default: Any, description: str, **declared: float) -> Any:
    return field(default=default, metadata={"description": description, **declared})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """Hyperparameters of one adapter's training; `PARAMETERS` has their declarations.

    Raises:
        InputError: naming the first that is out of range.
    """

    method: Method = _parameter(  # noqa: RUF009 (its type is an alias)
        "supervised",
        "what is learnt: the targets of rows; by direct preference optimization (DPO) which of two"
        " answers is preferred; or by Kahneman-Tversky optimization (KTO) whether an answer is"
        " liked",
    )
    beta: float = _parameter(
        0.1,
        "how closely an adapter of method `dpo` or `kto` keeps to its base",
        above=0,
        maximum=_MAX,
    )
    epochs: int = _parameter(1, "passes over the data", minimum=1, maximum=_MAX)
    rank: int = _parameter(8, "rank of the adapter", minimum=1, maximum=4096, is_shown=True)
    alpha: float = _parameter(
        16.0, "the adapter's output is scaled by alpha / rank", above=0, maximum=_MAX, is_shown=True
    )
    use_rslora: bool = _parameter(
        False, "scale by alpha / sqrt(rank) instead (Kalajdzievski, 2023)", is_shown=True
    )
    dropout: float = _parameter(
        0.0, "dropout on the adapter's input", minimum=0, below=1, is_shown=True
    )
    target_modules: tuple[str, ...] = _parameter(
        (),
        "linear modules that get an adapter, by name or end of name; empty: all of them but the"
        " output layer, PEFT's `all-linear`",
        is_shown=True,
    )
    learning_rate: float = _parameter(
        1e-3, "learning rate of AdamW", above=0, maximum=_MAX, is_shown=True
    )
    weight_decay: float = _parameter(0.0, "weight decay of AdamW", minimum=0, maximum=_MAX)
    schedule: RateSchedule = _parameter(  # noqa: RUF009 (its type is an alias)
        "linear", "schedule of the learning rate, over all optimizer steps of the job"
    )
    warmup_steps: int = _parameter(
        0, "steps in which the learning rate rises to its full value", minimum=0, maximum=_MAX
    )
    warmup_ratio: float = _parameter(
        0.0, "the same as a share of all steps, where `warmup_steps` is 0", minimum=0, below=1
    )
    batch_size: int = _parameter(
        8,
        "rows of an optimizer step; the last batch of an epoch may be smaller",
        minimum=1,
        maximum=_MAX,
    )
    max_length: int = _parameter(
        DEFAULT_MAX_LENGTH,
        "maximum [tokens of a row](data-sets.md#length); a longer one is truncated at its end",
        minimum=1,
        maximum=_MAX,
    )
    max_grad_norm: float = _parameter(
        1.0,
        "norm to which the adapter's gradient is clipped; 0: not at all",
        minimum=0,
        maximum=_MAX,
    )
    seed: int = _parameter(
        0,
        "seed of the adapter's start, the order of rows, and dropout",
        minimum=0,
        maximum=2**31 - 1,
    )
    patience: int = _parameter(
        0,
        "for jobs with validation data: stop after so many epochs without a lower validation loss,"
        " and export the best epoch's weights; 0: train all epochs and export the last one's",
        minimum=0,
        maximum=_MAX,
    )

    def __post_init__(self) -> None:
        for name, parameter in PARAMETERS.items():
            parameter.check(getattr(self, name))
        if self.method == "supervised" and self.beta != PARAMETERS["beta"].default:
            expected = 'method = "dpo" or method = "kto" beside it'
            raise InputError("beta", "is set for method 'supervised'", expected)
        check_batch_size("batch_size", self.method, self.batch_size)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters by name, without what a subclass adds."""
        return {name: getattr(self, name) for name in PARAMETERS}


def check_batch_size(place: str, method: Method, batch_size: int) -> None:
    """Check that a batch has the rows that a method needs.

    Args:
        place: how errors call the batch size.
        method, batch_size: as of `TrainingConfig`.

    Raises:
        InputError: for a single row of method `kto`: another row's answer tells how far the adapter
            is from its base.
    """
    if method == "kto" and batch_size == 1:
        raise InputError(place, "is 1 for method 'kto'", "2 or more")


def _declarations() -> Mapping[str, Parameter]:
    kinds = get_type_hints(TrainingConfig)
    declared = {
        one.name: Parameter(
            one.name,
            kinds[one.name],
            one.default,
            # Taken apart once: every job of a replayed log is checked.
            choices=get_args(kinds[one.name]) if get_origin(kinds[one.name]) is Literal else (),
            **one.metadata,
        )
        for one in fields(TrainingConfig)
    }
    return MappingProxyType(declared)


PARAMETERS = _declarations()
"""Hyperparameters by name, in the order of their declaration."""


# Names of the output layer in transformers' models.
_OUTPUT_LAYERS = frozenset({"lm_head", "embed_out", "output_layer"})


def module_notes(target_modules: Iterable[str]) -> tuple[str, ...]:
    """Return what the owner of an adapter of these modules should know, in sentences."""
    return tuple(
        f"target_modules has the output layer, {name}: where the base ties it to the input"
        " embeddings (tie_word_embeddings), llama.cpp does not load the adapter, nor does vLLM for"
        " some architectures; PEFT and auctune do"
        for name in target_modules
        if name.rsplit(".", 1)[-1] in _OUTPUT_LAYERS
    )
