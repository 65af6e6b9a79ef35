"""Shapes of answers: OpenAI's objects, each with the market's part beside where it has one."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


class ErrorDetail(BaseModel):
    """What went wrong: what was found, where, and what was expected."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """OpenAI's shape of an error."""

    error: ErrorDetail


class FileObject(BaseModel):
    """An uploaded file, or one that came out of a job."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: Literal["fine-tune", "fine-tune-results"]
    status: Literal["uploaded", "processed", "error"]
    status_details: str | None = None
    expires_at: int | None = None


class FileDeleted(BaseModel):
    """A file that is gone."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool


class JobError(BaseModel):
    """Why a job failed."""

    code: str
    message: str
    param: str | None = None


class HyperparametersUsed(BaseModel):
    """What was chosen, `auto` filled in."""

    n_epochs: int
    batch_size: int
    learning_rate_multiplier: float


class SupervisedUsed(BaseModel):
    """method.supervised."""

    hyperparameters: HyperparametersUsed


class MethodUsed(BaseModel):
    """How the adapter is trained."""

    type: Literal["supervised"] = "supervised"
    supervised: SupervisedUsed


class PlannedCell(BaseModel):
    """One slot on one node."""

    slot: int
    node: str
    begins_at: float


class Plan(BaseModel):
    """When and where a job runs, and who prepares its data."""

    cells: list[PlannedCell]
    vendor: str | None
    start: float
    finish: float


class JobProgress(BaseModel):
    """How far training is."""

    rows: int
    total_rows: int
    tokens: int
    steps: int
    first_loss: float | None
    last_loss: float | None


class EstimateResponse(BaseModel):
    """What a metered job is likely to come to; it binds nobody.

    What is called `p90` is not exceeded with a probability of 0.9; `risk` is that of being late, or
    not done; `cap` is the most that is ever charged. Where a pool's time is sold, it has a price,
    and a loss target a probability of being met.
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
    """What a metered job has cost so far, and what is still set aside for it.

    `least_max_cost` is the cap that would have been enough where one was too low; `slots` counts
    what is charged; `value` is what the job was worth when it was done; the estimate is that of the
    decision.
    """

    max_cost: str
    least_max_cost: str | None
    cost: str
    held: str
    slots: int
    value: str | None
    estimate: EstimateResponse | None


class TargetFields(BaseModel):
    """How a job with a loss target stands with it.

    `curve` is [[batches, mean loss over them]], where long each point several units of time;
    `share` is that of the pool in the newest unit, `finish` when the target is met if it stays.
    """

    target_loss: float
    best_loss: float | None
    share: float
    finish: float | None
    verdict: str | None
    pool_seconds: float
    curve: list[tuple[int, float]]


class EdgeSlot(BaseModel):
    """A slot of a plan at sites: workers by site, the parameter server's site, and chunks moved.

    A move is [from, to, chunks]; where both are the same site nothing crosses.
    """

    slot: int
    begins_at: float
    workers: dict[str, int]
    server: str
    moves: list[tuple[str, str, int]]
    trained: bool


class EdgeFields(BaseModel):
    """Where a job with data at sites trains.

    `samples` and `sites` are by site, samples and ids of files; `torn` counts slots that came to
    nothing and were planned anew; `crossed_mb` is what crossed sites so far.
    """

    samples: dict[str, int]
    sites: dict[str, str]
    slots: list[EdgeSlot]
    torn: int
    crossed_mb: float


class AlternativeResponse(BaseModel):
    """What a zone said of a job for which none was named, or why it cannot have it.

    `cost` is not exceeded with a probability of 0.9; `risk` is that of being late, or not done.
    """

    zone: str
    kind: str
    cost: str | None
    finish: float | None
    finish_time: str | None
    risk: float | None
    why_not: str | None


class MarketFields(BaseModel):
    """What the market knows of a job beyond OpenAI's fields."""

    zone: str
    state: str
    decision: Literal["admitted", "rejected"] | None
    reason: str | None
    bid: str | None
    payment: str | None
    least_bid: str | None
    price: str | None
    budget_left: str | None
    deadline: float | None
    earliest_deadline: float | None
    refunded: bool
    plan: Plan | None
    progress: JobProgress | None
    notes: list[str]
    lora: dict[str, Any]
    metered: MeteredFields | None
    target: TargetFields | None
    edge: EdgeFields | None
    alternatives: list[AlternativeResponse]


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
    integrations: list[Any] | None
    metadata: dict[str, str] | None
    market: MarketFields


class JobEvent(BaseModel):
    """Something that happened to a job."""

    id: str
    object: Literal["fine_tuning.job.event"] = "fine_tuning.job.event"
    created_at: int
    level: Literal["info", "warn", "error"]
    message: str
    type: Literal["message", "metrics"]
    data: dict[str, Any] | None


class CheckpointMetrics(BaseModel):
    """Of training, at a checkpoint."""

    step: float | None = None
    train_loss: float | None = None
    full_valid_loss: float | None = None


class Checkpoint(BaseModel):
    """Where a job could be taken up again."""

    id: str
    object: Literal["fine_tuning.job.checkpoint"] = "fine_tuning.job.checkpoint"
    created_at: int
    fine_tuned_model_checkpoint: str
    fine_tuning_job_id: str
    metrics: CheckpointMetrics
    step_number: int


class Page(BaseModel, Generic[T]):
    """A page of a list."""

    object: Literal["list"] = "list"
    data: list[T]
    has_more: bool


class FilePage(Page[FileObject]):
    """A page of files."""

    first_id: str | None
    last_id: str | None
