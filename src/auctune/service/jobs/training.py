"""Settings of a job's training, resolved from its request; and its submission to a zone."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Money
from auctune.domain.dataset import DEFAULT_MAX_LENGTH
from auctune.domain.training import TrainingConfig
from auctune.schema import hyperparameters_of
from auctune.service.jobs.idempotency import IdempotencyKey
from auctune.service.jobs.request import DpoHyperparameters, Hyperparameters, JobRequest


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
    if isinstance(chosen, DpoHyperparameters) and chosen.beta != "auto":
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
