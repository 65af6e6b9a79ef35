"""Section of a job's page that has the model answer, and evaluates it, beside its base.

With scripts a reply is a stream of parts, each of which takes the place of the one before; without
them it is a page with the last part.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from starlette.responses import Response

from auctune.datasets import find_kind
from auctune.domain import AuctuneError, InputError
from auctune.domain.dataset import RowKind
from auctune.domain.paired_evaluation import EvaluationProgress
from auctune.service.fair_queue import in_thread
from auctune.service.http.errors import ApiError, not_found, to_api_error
from auctune.service.http.routes import files, jobs
from auctune.service.http.routes.answers import ClosedStream, check_enabled, while_connected
from auctune.service.http.serializers import JSON
from auctune.service.inference.catalog import Model, ModelNotFoundError
from auctune.service.inference.evaluation import MAX_ROWS, NUM_QUESTIONS
from auctune.service.page.auth import PageRequest, form_values
from auctune.service.page.templates import render_part

Steps = AsyncGenerator[EvaluationProgress]

# Behind each part of a stream; texts are escaped, so that none of them contains it.
_PART_END = b"<!--part-->"
_PART_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class EvaluationForm:
    """What the section offers.

    Attributes:
        missing: why the model cannot be used, or None.
        files: of the user, with rows.
        file: id of the one that is chosen, or None.
        has_preferences: whether the job's own rows are preferences.
        price: of 1,000 tokens.
        prompt: of the question.
    """

    missing: str | None
    files: list[JSON]
    file: str | None
    has_preferences: bool
    price: Decimal
    prompt: str = ""
    max_rows: int = MAX_ROWS
    num_questions: int = NUM_QUESTIONS


async def evaluation_form(
    visit: PageRequest, job: JSON, file: str | None = None, prompt: str = ""
) -> EvaluationForm | None:
    """Return what is offered for a job of the user, or None for a job without a model."""
    if job["fine_tuned_model"] is None:
        return None
    missing, listed = None, []
    try:
        await _model(visit, job)
    except (ApiError, ModelNotFoundError) as error:
        missing = error.detail if isinstance(error, ApiError) else _MODEL_MISSING
    else:
        listed = await files.uploads(visit.service, visit.who)
    has_preferences = job["method"]["type"] != "supervised"
    own = None if has_preferences else job["validation_file"]
    chosen = next((one["id"] for one in listed if one["id"] == (file or own)), None)
    price = visit.service.generation.price
    return EvaluationForm(missing, listed, chosen, has_preferences, price, prompt)


_MODEL_MISSING = "its adapter has been deleted, or its base is not offered any more"


async def answer(visit: PageRequest) -> Response:
    """Answer a question by the model of a job, and by its base."""
    job, values = await _job(visit), await form_values(visit)
    prompt = values.get("prompt")
    model, adapter = await _model(visit, job)
    if prompt is None:
        raise InputError("prompt", "is empty", "a text")
    kind = await _kind_of_rows(visit, job)
    steps = visit.service.evaluations.answer(model, adapter, visit.who, prompt, kind)
    return await _respond(visit, job, steps, prompt=prompt)


async def evaluate(visit: PageRequest) -> Response:
    """Evaluate the model of a job, and its base, on the first rows of a file."""
    job, values = await _job(visit), await form_values(visit)
    model, adapter = await _model(visit, job)
    name = values.get("file", "")
    data = visit.service.files.path(await files.own_file(visit.service, visit.who, name))
    steps = visit.service.evaluations.evaluate(model, adapter, visit.who, data)
    return await _respond(visit, job, steps, file=name)


async def _job(visit: PageRequest) -> JSON:
    """Return the user's job, which has a model."""
    name = visit.param("job_id")
    job = await jobs.retrieve_job(visit.service, visit.who, name)
    if job["fine_tuned_model"] is None:
        raise not_found("model of", name)
    return job


async def _model(visit: PageRequest, job: JSON) -> tuple[Model, Path]:
    """Return the model of a job, and the archive of its adapter."""
    check_enabled(visit.service)
    model = await visit.service.models.find(job["fine_tuned_model"], visit.who.user)
    assert model.file is not None
    return model, visit.service.files.path(model.file)


async def _kind_of_rows(visit: PageRequest, job: JSON) -> RowKind:
    """Return the kind of the rows that a job was trained on; a chat if they are gone."""
    try:
        record = await files.own_file(visit.service, visit.who, job["training_file"])
        found = await in_thread(find_kind, visit.service.files.path(record))
    except (ApiError, InputError):
        found = None
    return found or RowKind.CHAT


async def _respond(
    visit: PageRequest, job: JSON, steps: Steps, file: str | None = None, prompt: str = ""
) -> Response:
    if visit.request.headers.get("hx-request"):
        return ClosedStream(_stream(visit, steps), "text/html")
    progress, error = await while_connected(visit.request, _last(steps))
    return visit.render(
        "evaluation_page.html",
        200 if error is None else error.status_code,
        job=job,
        evaluation=await evaluation_form(visit, job, file, prompt),
        result=progress,
        error=None if error is None else error.detail,
    )


async def _last(steps: Steps) -> tuple[EvaluationProgress, ApiError | None]:
    progress = EvaluationProgress()
    async with aclosing(steps):
        try:
            async for step in steps:
                progress = step
        except AuctuneError as error:
            return progress, to_api_error(error)
    return progress, None


async def _stream(visit: PageRequest, steps: Steps) -> AsyncGenerator[bytes]:
    """Yield what is shown, now and then and at the end."""
    progress, shown_at, wrong = EvaluationProgress(), -_PART_SECONDS, None
    async with aclosing(steps):
        try:
            async for progress in steps:
                if time.monotonic() - shown_at >= _PART_SECONDS:
                    shown_at = time.monotonic()
                    yield _part(visit, progress)
        except AuctuneError as error:
            wrong = to_api_error(error).detail
    yield _part(visit, progress, wrong)


def _part(visit: PageRequest, progress: EvaluationProgress, error: str | None = None) -> bytes:
    form = {"price": visit.service.generation.price}
    text = render_part("evaluation_result.html", evaluation=form, result=progress, error=error)
    return text.encode() + _PART_END
