"""Response models: OpenAI's objects, extended by the fields of this service."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel
from pydantic.json_schema import SkipJsonSchema

from auctune.service.jobs.request import Integration

T = TypeVar("T")


class ErrorDetail(BaseModel):
    """An error: what was found, where, and what was expected."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """An error in OpenAI's format."""

    error: ErrorDetail


class FileObject(BaseModel):
    """An uploaded file, or a result file of a job."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    # Left out if there is none, as in OpenAI's interface.
    expires_at: int | SkipJsonSchema[None] = None
    filename: str
    purpose: Literal["fine-tune", "fine-tune-results"]
    status: Literal["uploaded", "processed", "error"]
    # Left out if there is none: in OpenAI's interface it is never null.
    status_details: str | SkipJsonSchema[None] = None


class FileDeleted(BaseModel):
    """A file that was deleted."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool


class JobError(BaseModel):
    """Error of a job that failed."""

    code: str
    message: str
    param: str | None = None


class HyperparametersUsed(BaseModel):
    """Hyperparameters of a job, with `auto` resolved."""

    n_epochs: int
    batch_size: int
    learning_rate_multiplier: float


class PreferenceHyperparametersUsed(HyperparametersUsed):
    """The same of a job that learns from preferences."""

    beta: float


class SupervisedUsed(BaseModel):
    """Settings of supervised fine-tuning."""

    hyperparameters: HyperparametersUsed


class PreferenceUsed(BaseModel):
    """Settings of direct preference optimization, or of Kahneman-Tversky optimization."""

    hyperparameters: PreferenceHyperparametersUsed


class MethodUsed(BaseModel):
    """Training method, and its settings under its name."""

    type: Literal["supervised", "dpo", "kto"]
    supervised: SupervisedUsed | None = None
    dpo: PreferenceUsed | None = None
    kto: PreferenceUsed | None = None


class PlannedCell(BaseModel):
    """One slot on one node."""

    slot: int
    node: str
    begins_at: float


class Plan(BaseModel):
    """Cells in which a job runs, and the vendor that repairs its data."""

    cells: list[PlannedCell]
    vendor: str | None
    start: float
    finish: float


class JobProgress(BaseModel):
    """Progress of training."""

    rows: int
    total_rows: int
    tokens: int
    steps: int
    first_loss: float | None
    last_loss: float | None


class EstimateResponse(BaseModel):
    """Estimate of a metered job; it is not binding.

    `p90` values are not exceeded with a probability of 0.9. `risk` is the probability that the job
    is late or not done. `cap` is the maximum charge. `price_per_pool_second` and
    `success_probability` (of reaching the target loss) are set in zones of kind `timeshare`.
    """

    expected_cost: str
    p90_cost: str
    finish: float
    finish_time: str
    finish_p90: float
    finish_p90_time: str
    risk: float
    cap: str | None
    price_per_pool_second: str | None
    success_probability: float | None
    binding: Literal[False]


class MeteredFields(BaseModel):
    """Cost of a metered job so far, and the amount on hold for it.

    `min_max_cost` is the cap that would have been enough if the job's was too low. `slots` counts
    the charged slots. `value` is the value of the job when it was done. `estimate` is that of the
    decision.
    """

    max_cost: str
    min_max_cost: str | None
    cost: str
    held: str
    slots: int
    value: str | None
    estimate: EstimateResponse | None


class TargetFields(BaseModel):
    """Progress of a job towards its target loss.

    `curve` is [[batches, mean loss over them]]; a point of a long curve spans several quanta.
    `share` is the job's share of the pool in the newest quantum; `finish` is when the target is
    reached if the share stays the same.
    """

    target_loss: float
    best_loss: float | None
    share: float
    finish: float | None
    verdict: str | None
    pool_seconds: float
    curve: list[tuple[int, float]]


class EdgeSlot(BaseModel):
    """A slot of a plan at sites: workers by site, site of the parameter server, and moved chunks.

    A move is [from, to, chunks]; a move within a site causes no traffic.
    """

    slot: int
    begins_at: float
    workers: dict[str, int]
    server: str
    moves: list[tuple[str, str, int]]
    trained: bool


class EdgeFields(BaseModel):
    """Plan of a job with data at sites.

    `samples` and `sites` map sites to numbers of rows and to file ids. `failed_slots` counts
    slots that were replanned. `transferred_mb` is the traffic between sites so far.
    """

    samples: dict[str, int]
    sites: dict[str, str]
    slots: list[EdgeSlot]
    failed_slots: int
    transferred_mb: float


class AlternativeResponse(BaseModel):
    """Offer of one of several zones for a job, or the reason why the zone cannot take it.

    `cost` is not exceeded with a probability of 0.9; `risk` is that of being late or not done.
    """

    zone: str
    kind: str
    cost: str | None
    finish: float | None
    finish_time: str | None
    risk: float | None
    unavailable_reason: str | None


class DefaultTerm(BaseModel):
    """A term that a request did not state: its value, and whose default it is ("user ada")."""

    value: str
    of: str


class JobOutcome(BaseModel):
    """Decision, payment and progress of a job."""

    state: str
    decision: Literal["admitted", "rejected"] | None
    reason: str | None
    bid: str | None
    payment: str | None
    price: str | None
    refunded: bool
    plan: Plan | None
    progress: JobProgress | None
    metered: MeteredFields | None
    target: TargetFields | None


class MarketFields(JobOutcome):
    """Fields of a job beyond OpenAI's."""

    zone: str
    start_from: str | None
    min_bid: str | None
    budget_remaining: str | None
    deadline: float | None
    earliest_deadline: float | None
    notes: list[str]
    lora: dict[str, Any]
    edge: EdgeFields | None
    alternatives: list[AlternativeResponse]
    default_terms: dict[str, DefaultTerm]


class Job(BaseModel):
    """A fine-tuning job."""

    id: str
    object: Literal["fine_tuning.job"] = "fine_tuning.job"
    created_at: int
    model: str
    training_file: str
    validation_file: str | None
    hyperparameters: HyperparametersUsed
    method: MethodUsed
    organization_id: str
    seed: int
    status: Literal["validating_files", "queued", "running", "succeeded", "failed", "cancelled"]
    result_files: list[str]
    trained_tokens: int | None
    fine_tuned_model: str | None
    finished_at: int | None
    estimated_finish: int | None
    error: JobError | None
    integrations: list[Integration] | None
    metadata: dict[str, str] | None
    market: MarketFields


class JobEvent(BaseModel):
    """An event of a job."""

    id: str
    object: Literal["fine_tuning.job.event"] = "fine_tuning.job.event"
    created_at: int
    level: Literal["info", "warn", "error"]
    message: str
    type: Literal["message", "metrics"]
    data: dict[str, Any] | None


class CheckpointMetrics(BaseModel):
    """Training metrics at a checkpoint; those that were not measured are left out."""

    step: float
    train_loss: float | SkipJsonSchema[None] = None
    train_mean_token_accuracy: float | SkipJsonSchema[None] = None
    full_valid_loss: float | SkipJsonSchema[None] = None
    full_valid_mean_token_accuracy: float | SkipJsonSchema[None] = None


class Checkpoint(BaseModel):
    """The adapter of a job as it was at the end of an epoch."""

    id: str
    object: Literal["fine_tuning.job.checkpoint"] = "fine_tuning.job.checkpoint"
    created_at: int
    fine_tuned_model_checkpoint: str
    fine_tuning_job_id: str
    metrics: CheckpointMetrics
    step_number: int
    epoch: int
    result_file: str


class Page(BaseModel, Generic[T]):
    """A page of a list."""

    object: Literal["list"] = "list"
    data: list[T]
    has_more: bool


class FilePage(Page[FileObject]):
    """A page of files; `first_id` and `last_id` of an empty one are empty."""

    first_id: str
    last_id: str


class ModelObject(BaseModel):
    """A base, or a fine-tuned model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    """All models of a user."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


class ModelDeleted(BaseModel):
    """A model that was deleted."""

    id: str
    object: Literal["model"] = "model"
    deleted: bool


class Usage(BaseModel):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Logprob(BaseModel):
    """A token, its bytes in UTF-8 and the natural logarithm of its probability."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobs(Logprob):
    """A token of an answer, and the likeliest ones at its place."""

    top_logprobs: list[Logprob]


class ChatLogprobs(BaseModel):
    """Tokens of an answer to a chat."""

    content: list[TokenLogprobs]
    refusal: None


class CalledFunction(BaseModel):
    """Name and arguments of a call, these as JSON in a text."""

    name: str
    arguments: str


class MessageToolCall(BaseModel):
    """A call of a tool."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AnswerMessage(BaseModel):
    """Message of the assistant."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: list[MessageToolCall] | None = None


class ChatChoice(BaseModel):
    """One answer to a chat."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatCompletion(BaseModel):
    """Answers to a chat."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage


class TextLogprobs(BaseModel):
    """Tokens of a continuation; `text_offset` counts characters from its begin."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(BaseModel):
    """One continuation of a prompt."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"]


class TextCompletion(BaseModel):
    """Continuations of prompts."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage
