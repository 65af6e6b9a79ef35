"""Bodies of requests for jobs and quotes: OpenAI's fields, and `market`; names of models.

Unknown fields and features of OpenAI that this service does not offer are errors. By its
idempotency key a repeated request gets the first one's answer, never a second job.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StringConstraints,
    model_validator,
)
from sqlalchemy import Engine, Row, select

from auctune.domain import InputError
from auctune.domain.start_adapter import StartAdapter
from auctune.domain.training import Method as TrainingMethod
from auctune.files.schema import with_hyperparameters
from auctune.service.accounts.registry import AppliedTerm
from auctune.service.fair_queue import in_thread, leave_gate
from auctune.service.identifiers import FILE_ID
from auctune.service.storage import Committer, WriteBatch, tables
from auctune.service.storage.committer import durable

PREFIX = "ft:"
"""Prefix of their names, as at OpenAI."""
_STEP = ":ckpt-step-"


@dataclass(frozen=True, slots=True)
class StartModel:
    """The fine-tuned model that a job starts from.

    Attributes:
        base: name of its base model.
        file: id of the file with its adapter.
        adapter: what its file was found to hold.
        alias: name in place of the base's in the name of the model, or None.
    """

    base: str
    file: str
    adapter: StartAdapter
    alias: str | None = None


def model_name(request: Mapping[str, Any], job: str) -> str:
    """Return the name of the model that a job has trained, by the record of its request.

    OpenAI's format: ft:MODEL:SUFFIX:ID. MODEL is the alias that the request named, if it did:
    clients know by OpenAI's names whom to ask for answers (litellm) and what fits (llama-index).
    """
    model = request.get("alias") or request["model"]
    return f"{PREFIX}{model}:{request['suffix'] or ''}:{job.removeprefix('ftjob-')}"


def checkpoint_name(model: str, step: int | str) -> str:
    """Return the name of a model as it was after an optimizer step, in OpenAI's format."""
    return f"{model}{_STEP}{step}"


def split_name(name: str) -> tuple[str, str | None]:
    """Return the name of a model without its step, and the step as text, or None without one."""
    model, is_checkpoint, step = name.rpartition(_STEP)
    return (model, step) if is_checkpoint else (name, None)


def job_of(model: str) -> str:
    """Return the id of the job that has trained a model of this name."""
    return f"ftjob-{model.rpartition(':')[2]}"


_MAX = 10**9
Count = Annotated[int, Field(ge=1, le=_MAX, strict=True)]
# Strict: "1_0" and true are not numbers.
Positive = Annotated[float, Field(gt=0, le=_MAX, allow_inf_nan=False, strict=True)]
# PostgreSQL cannot store NUL.
_TEXT = r"^[^\u0000]*$"
# Text that is displayed: without control characters and characters that change text direction.
_LINE = r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$"
Key = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=_LINE)]
Value = Annotated[str, StringConstraints(max_length=512, pattern=_TEXT)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=_LINE)]
Amount = (
    Annotated[str, StringConstraints(max_length=32)]
    # Strict: otherwise true would be 1.0.
    | Annotated[float, Field(strict=True)]
    | Annotated[int, Field(strict=True)]
)
Moment = Annotated[str, StringConstraints(max_length=64)]
# As W&B has it: without / \ # ? % and colons.
_WANDB_PROJECT = r"^[^/\\#?%:\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]*$"
WandbName = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=_LINE)]
FileId = Annotated[str, StringConstraints(pattern=f"^{FILE_ID}$")]

# A mistyped field is an error, not an omitted one.
FORBID_EXTRA = ConfigDict(extra="forbid", frozen=True)


class Hyperparameters(BaseModel):
    """OpenAI's hyperparameters; `auto` is the zone's default."""

    model_config = FORBID_EXTRA

    n_epochs: Literal["auto"] | Count = "auto"
    batch_size: Literal["auto"] | Count = "auto"
    learning_rate_multiplier: Literal["auto"] | Positive = "auto"


class Supervised(BaseModel):
    """Settings of supervised fine-tuning."""

    model_config = FORBID_EXTRA

    hyperparameters: Hyperparameters = Hyperparameters()


class PreferenceHyperparameters(Hyperparameters):
    """OpenAI's hyperparameters of direct preference optimization, and of KTO."""

    beta: Literal["auto"] | Positive = "auto"


class Preference(BaseModel):
    """Settings of direct preference optimization, or of Kahneman-Tversky optimization."""

    model_config = FORBID_EXTRA

    hyperparameters: PreferenceHyperparameters = PreferenceHyperparameters()


class Method(BaseModel):
    """Training method: `type`, and the settings under its name. OpenAI has no `kto`."""

    model_config = FORBID_EXTRA

    type: TrainingMethod
    supervised: Supervised | None = None
    dpo: Preference | None = None
    kto: Preference | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_by_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type") == "reinforcement":
            found = f"{value['type']!r} is not offered"
            raise InputError("type", found, "'supervised', 'dpo' or 'kto'")
        return value

    @model_validator(mode="after")
    def _settings_are_of_the_type(self) -> "Method":
        for other in get_args(TrainingMethod):
            if other != self.type and getattr(self, other) is not None:
                found = f"is given for method {self.type!r}"
                raise InputError(other, found, f"{self.type!r} alone")
        return self

    @property
    def hyperparameters(self) -> Hyperparameters | None:
        """Hyperparameters of the type, or `None` if there are none."""
        settings: Supervised | Preference | None = getattr(self, self.type)
        return None if settings is None else settings.hyperparameters


# The others are OpenAI's own.
@with_hyperparameters(without=("method", "beta", "epochs", "batch_size", "seed"))
class Lora(BaseModel):
    """Hyperparameters that OpenAI's API does not have; `None` is the zone's default."""

    model_config = FORBID_EXTRA

    target_modules: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    learning_rate: Positive | None = None
    max_length: Count | None = None
    truncate: bool = False


class DecayingValue(BaseModel):
    """Value of a job by its finish time; it falls linearly from the deadline to 0 at `zero_at`."""

    model_config = FORBID_EXTRA

    amount: Amount
    deadline: Moment | None = None
    zero_at: Moment | None = None


class MarketTerms(BaseModel):
    """The field `market` of a request: bid, deadline and options of the zone kinds."""

    model_config = FORBID_EXTRA

    bid: Amount | None = None
    deadline: Moment | None = None
    value: DecayingValue | None = None
    max_cost: Amount | None = None
    target_loss: Positive | None = None
    sites: Annotated[dict[Key, FileId], Field(min_length=1, max_length=1000)] | None = None
    zone: Key | None = None
    share: Annotated[float, Field(gt=0, le=1, strict=True)] | None = None
    repair: StrictBool = False
    lora: Lora = Lora()
    quote: Annotated[str, StringConstraints(pattern=r"^quote-[A-Za-z0-9]{1,64}$")] | None = None
    line: Annotated[int, Field(ge=0, le=100_000, strict=True)] | None = None
    what_if: StrictBool = False
    risk: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.1


class WandbRunTerms(BaseModel):
    """The run of Weights & Biases that a job is logged to, in OpenAI's fields and W&B's limits."""

    model_config = FORBID_EXTRA

    project: Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=_WANDB_PROJECT)]
    name: WandbName | None = None
    entity: WandbName | None = None
    tags: Annotated[tuple[Key, ...], Field(max_length=32)] = ()


class Integration(BaseModel):
    """A service of others that a job is logged to."""

    model_config = FORBID_EXTRA

    type: Literal["wandb"]
    wandb: WandbRunTerms


class Request(BaseModel):
    """Fields that a bid and the acceptance of a quote share."""

    model_config = FORBID_EXTRA

    validation_file: FileId | None = None
    hyperparameters: Hyperparameters | None = None
    method: Method | None = None
    seed: Annotated[int, Field(ge=0, le=2**31 - 1, strict=True)] | None = None
    suffix: Annotated[str, StringConstraints(max_length=64, pattern=_LINE)] | None = None
    metadata: Annotated[dict[Key, Value], Field(max_length=16)] | None = None
    integrations: Annotated[tuple[Integration, ...], Field(max_length=5)] | None = None
    market: MarketTerms = MarketTerms()

    @model_validator(mode="after")
    def _hyperparameters_are_given_once(self) -> Self:
        if self.hyperparameters and self.method and self.method.hyperparameters:
            place = f"method.{self.method.type}.hyperparameters"
            raise InputError("hyperparameters", f"is given beside {place}", "one of them")
        return self

    @model_validator(mode="after")
    def _preferences_are_not_repaired(self) -> Self:
        if self.market.repair and self.method and self.method.type != "supervised":
            expected = "false: no vendor repairs preferences"
            found = f"is true for method {self.method.type!r}"
            raise InputError("market.repair", found, expected)
        return self

    @property
    def hyperparameters_used(self) -> Hyperparameters:
        """Hyperparameters from `method`, or else from `hyperparameters`."""
        of_method = None if self.method is None else self.method.hyperparameters
        return of_method or self.hyperparameters or Hyperparameters()


class JobRequest(Request):
    """POST /v1/fine_tuning/jobs with a bid, and POST /v1/quotes."""

    model: Name
    training_file: FileId
    _start: StartModel | None = PrivateAttr(None)
    _alias: str | None = PrivateAttr(None)
    _default_terms: Mapping[str, AppliedTerm] = PrivateAttr(default_factory=dict)

    def starting_from(self, start: StartModel) -> "JobRequest":
        """Return the request with the fine-tuned model that it names."""
        request = self.model_copy()
        request._start = start
        return request

    def for_base(self, base: str) -> "JobRequest":
        """Return the request with the base that its model is an alias of."""
        request = self.model_copy(update={"model": base})
        request._alias = self.model
        return request

    def with_default_terms(self, terms: Mapping[str, AppliedTerm]) -> "JobRequest":
        """Return the request with terms that it does not state, by field of `market`."""
        values = {name: one.value for name, one in terms.items()}
        request = self.model_copy(update={"market": self.market.model_copy(update=values)})
        request._default_terms = {**self._default_terms, **terms}
        return request

    @property
    def default_terms(self) -> Mapping[str, AppliedTerm]:
        """Default terms of the request, by field of `market`; none that was replaced since."""
        return {
            name: one
            for name, one in self._default_terms.items()
            if getattr(self.market, name) == one.value
        }

    @property
    def start(self) -> StartModel | None:
        """The fine-tuned model that the job starts from, or None if it starts from its base."""
        return self._start

    @property
    def alias(self) -> str | None:
        """Name in place of the base's in the request, or in that of the model it starts from."""
        return self._alias if self._start is None else self._start.alias

    @property
    def base(self) -> str:
        """Name of the base model that the job trains on."""
        return self.model if self._start is None else self._start.base


class Acceptance(Request):
    """POST /v1/fine_tuning/jobs with `market.quote`; omitted fields are as quoted."""

    model: Name | None = None
    training_file: FileId | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Identity of a request, by which a repetition is recognized.

    The token is its idempotency key, or else the digest of its body.
    """

    key: str
    token: str
    digest: str


BODY_SECONDS = 600.0
KEY_SECONDS = 86_400.0
_MAX_RECENT = 100_000
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class _Recent:
    digest: str
    job: "asyncio.Future[str]"
    at: float


class IdempotencyStore:
    """Jobs of recent requests.

    An idempotency key is valid for a day. Without one, a body that the client marks as a retry
    (`x-stainless-retry-count` above 0) counts as the same request for ten minutes. A row is removed
    after a day; `prune` is to be called from time to time.
    """

    def __init__(self, reader: Engine, now: Callable[[], float]) -> None:
        self._reader = reader
        self._now = now
        self._recent: OrderedDict[tuple[str, str], _Recent] = OrderedDict()

    def key_for(self, api_key: str, name: str | None, body: bytes) -> IdempotencyKey:
        digest = hashlib.sha256(body).hexdigest()
        token = f"body:{digest}" if name is None else f"key:{name}"
        return IdempotencyKey(api_key, token, digest)

    async def find(self, key: IdempotencyKey, *, is_retry: bool) -> str | None:
        """Return the job of an earlier identical request, or None.

        The error of a request in progress is raised here too.
        """
        by_key = key.token.startswith("key:")
        if not (by_key or is_retry):
            return None
        recent = self._find_recent(key, by_key=by_key)
        if recent is None:
            stored = await in_thread(self._find_stored, key)
            if stored is not None and self._is_fresh(stored.at, by_key=by_key):
                _check_body(stored.digest, key)
                return str(stored.job)
            # The same request may have arrived during the query.
            recent = self._find_recent(key, by_key=by_key)
        if recent is None:
            return None
        _check_body(recent.digest, key)
        leave_gate()
        return await asyncio.shield(recent.job)

    def start(self, key: IdempotencyKey) -> "asyncio.Future[str]":
        """Register a request in progress; the caller sets the job's id or the error.

        To be called right after `find` returned None, without an `await` in between.
        """
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # Mark an error as retrieved, as no other request may wait for it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._recent[(key.key, key.token)] = _Recent(key.digest, future, self._now())
        while len(self._recent) > _MAX_RECENT:
            self._recent.popitem(last=False)
        return future

    def discard(self, key: IdempotencyKey) -> None:
        """Forget a request that failed, so that it can be repeated."""
        self._recent.pop((key.key, key.token), None)

    def forget(self, api_keys: Collection[str]) -> None:
        """Forget all requests of API keys."""
        for recent in [one for one in self._recent if one[0] in api_keys]:
            del self._recent[recent]

    async def prune(self, committer: Committer) -> None:
        """Remove the stored keys that are no longer valid."""
        while expired := await asyncio.to_thread(self._expired):
            await durable(committer, WriteBatch().remove(tables.idempotency_keys, *expired))

    def _expired(self) -> list[dict[str, str]]:
        table = tables.idempotency_keys
        chosen = select(table.c.key_id, table.c.token).where(table.c.at < self._now() - KEY_SECONDS)
        with self._reader.connect() as connection:
            return [dict(row) for row in connection.execute(chosen.limit(_PAGE)).mappings()]

    def _find_recent(self, key: IdempotencyKey, *, by_key: bool) -> _Recent | None:
        recent = self._recent.get((key.key, key.token))
        return recent if recent is not None and self._is_fresh(recent.at, by_key=by_key) else None

    def _is_fresh(self, at: float, *, by_key: bool) -> bool:
        return self._now() - at < (KEY_SECONDS if by_key else BODY_SECONDS)

    def _find_stored(self, key: IdempotencyKey) -> Row[Any, Any, Any] | None:
        table = tables.idempotency_keys
        chosen = select(table.c.digest, table.c.job, table.c.at).where(
            table.c.key_id == key.key, table.c.token == key.token
        )
        with self._reader.connect() as connection:
            return connection.execute(chosen).first()


def _check_body(digest: str, key: IdempotencyKey) -> None:
    if digest != key.digest:
        raise InputError(
            "Idempotency-Key", "was used for another request", "a new key for a new request"
        )
