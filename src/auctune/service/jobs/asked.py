"""From a request to what is trained: `auto` and all that was left out filled in."""

import secrets
from dataclasses import dataclass

from auctune.domain.dataset import DEFAULT_MAX_LENGTH
from auctune.service.jobs.request import Hyperparameters, JobRequest
from auctune.service.jobs.training import Training


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a zone chooses where a request leaves it to the market.

    Attributes:
        epochs, batch_size, max_length: as of `Training`.
        learning_rate: of a multiplier of 1.
        share: of a node that a task takes at most.
        context_tokens: of the base; none: no limit.
    """

    epochs: int = 3
    batch_size: int = 8
    max_length: int = DEFAULT_MAX_LENGTH
    learning_rate: float = 1e-3
    share: float = 0.25
    context_tokens: int | None = None

    @property
    def length(self) -> int:
        """The longest row, where a request says nothing."""
        return min(self.max_length, self.context_tokens or self.max_length)


def training_of(request: JobRequest, defaults: Defaults) -> Training:
    """What a request asks to train. Without a seed it gets one, which is on record."""
    chosen, terms = request.hyperparameters_used, request.market
    lora = terms.lora
    length = lora.max_length or defaults.length
    return Training(
        data=request.training_file,
        validation=request.validation_file,
        epochs=defaults.epochs if chosen.n_epochs == "auto" else chosen.n_epochs,
        rank=lora.rank,
        alpha=lora.alpha,
        dropout=lora.dropout,
        target_modules=lora.target_modules,
        learning_rate=lora.learning_rate or _rate(chosen, defaults),
        weight_decay=lora.weight_decay,
        schedule=lora.schedule,
        warmup_steps=lora.warmup_steps,
        batch_size=defaults.batch_size if chosen.batch_size == "auto" else chosen.batch_size,
        max_length=min(length, defaults.context_tokens or length),
        truncate=lora.truncate,
        max_grad_norm=lora.max_grad_norm,
        seed=secrets.randbelow(2**31) if request.seed is None else request.seed,
        patience=lora.patience,
        share=terms.share or defaults.share,
        repair=terms.repair,
    )


def _rate(chosen: Hyperparameters, defaults: Defaults) -> float:
    if chosen.learning_rate_multiplier == "auto":
        return defaults.learning_rate
    return chosen.learning_rate_multiplier * defaults.learning_rate
