"""Clients other than the plain `openai` client fine-tune here, changed by two variables alone.

`litellm`, `dspy` and `llama-index-finetuning` are no dependencies: their tests are skipped where
they are not installed. `support.openai_contract` looks at the answers of other tests; here the
clients do.
"""

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.service.accounts.default_terms import DefaultTerms
from auctune.service.config.models import ServiceConfig
from support.serving import ROWS, Served, make_file

pytest_plugins = ["support.served_market"]
# These packages warn of themselves.
pytestmark = pytest.mark.filterwarnings("ignore")

ALIAS = "gpt-4o-mini-2024-07-18"
EPOCHS = [EpochMetrics(epoch=1, step=10, train_loss=1.5, train_accuracy=0.25)]
CHAT = [
    {"role": "user", "content": "Is it open?"},
    {"role": "assistant", "content": "Yes, until six."},
]


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    terms = DefaultTerms(bid=Decimal(100), deadline="+20m")
    update = {"default_terms": terms, "model_aliases": {ALIAS: "tiny"}}
    return make_file().model_copy(update=update)


@pytest.fixture(autouse=True)
def variables(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two that a user changes; the others keep packages from asking the network."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{served.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", served.users.get("ada") or served.key("ada"))
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    place = tmp_path / "data.jsonl"
    place.write_text(f"{json.dumps({'messages': CHAT})}\n" * 20)
    return place


def end(served: Served, job: str) -> str:
    """Have a job succeed; the name of its model."""
    client = served.client()
    served.wait_for(lambda: client.fine_tuning.jobs.retrieve(job), "queued")
    served.train(job, 20)
    served.finish(job, "ada", epochs=EPOCHS)
    return str(client.fine_tuning.jobs.retrieve(job).fine_tuned_model)


def test_the_asynchronous_client(served: Served) -> None:
    async def play() -> None:
        async with openai.AsyncOpenAI(max_retries=0) as client:
            file = await client.files.create(
                file=("data.jsonl", ROWS.encode()), purpose="fine-tune"
            )
            file = await client.files.wait_for_processing(file.id, poll_interval=0.05)
            assert file.status == "processed"
            jobs = client.fine_tuning.jobs
            job = await jobs.create(model=ALIAS, training_file=file.id)
            model = await asyncio.to_thread(end, served, job.id)
            assert (await jobs.retrieve(job.id)).fine_tuned_model == model
            assert model == f"ft:{ALIAS}::{job.id.removeprefix('ftjob-')}"
            events = [event async for event in jobs.list_events(job.id, limit=1)]
            assert {event.type for event in events} == {"message", "metrics"}
            assert [one.step_number async for one in jobs.checkpoints.list(job.id)] == [10]
            assert job.id in [one.id async for one in jobs.list(limit=1)]
            with pytest.raises(openai.BadRequestError):
                await jobs.cancel(job.id)

    asyncio.run(play())


def test_litellm(served: Served) -> None:
    litellm: Any = pytest.importorskip("litellm")
    where = {
        "custom_llm_provider": "openai",
        "api_base": f"{served.url}/v1",
        "api_key": served.users["ada"],
    }
    file = litellm.create_file(file=("data.jsonl", ROWS.encode()), purpose="fine-tune", **where)
    jobs = [
        litellm.create_fine_tuning_job(
            model=ALIAS,
            training_file=file.id,
            hyperparameters={"n_epochs": 1},
            suffix="weather",
            **where,
        ).id
        for _ in range(2)
    ]
    model = end(served, jobs[0])
    done = litellm.retrieve_fine_tuning_job(fine_tuning_job_id=jobs[0], **where)
    assert (done.status, done.fine_tuned_model) == ("succeeded", model)
    content = litellm.file_content(file_id=done.result_files[-1], **where).content
    assert content == b"PK adapter"
    listed = litellm.list_fine_tuning_jobs(limit=2, **where)
    assert [job.id for job in listed.data] == jobs[::-1]
    cancelled = litellm.cancel_fine_tuning_job(fine_tuning_job_id=jobs[1], **where)
    assert cancelled.status == "cancelled"
    assert file.id in [one.id for one in litellm.file_list(**where)]
    assert litellm.file_retrieve(file_id=file.id, **where).status == "processed"
    assert litellm.file_delete(file_id=file.id, **where).deleted


def test_dspy_fine_tunes_what_a_teacher_has_answered(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where it keeps its data sets.
    monkeypatch.setenv("DSPY_CACHEDIR", str(tmp_path))
    dspy: Any = pytest.importorskip("dspy")
    from dspy.clients import openai as provider
    from dspy.utils import DummyLM

    ended: list[str] = []

    def sleep(seconds: float) -> None:
        """The job ends while its client waits, which is for 20 s at a time."""
        job = next(iter(served.client().fine_tuning.jobs.list(limit=1)))
        ended.append(end(served, job.id))

    monkeypatch.setattr(provider, "time", SimpleNamespace(sleep=sleep))
    student, teacher = (dspy.Predict("question -> answer") for _ in range(2))
    student.set_lm(dspy.LM(f"openai/{ALIAS}"))
    teacher.set_lm(DummyLM([{"answer": str(2 * n + 1)} for n in range(20)]))
    rows = [
        dspy.Example(question=f"What is {n} and {n + 1}?", answer=str(2 * n + 1)) for n in range(20)
    ]
    tuner = dspy.BootstrapFinetune(
        metric=lambda example, found, trace=None: True,
        train_kwargs={"n_epochs": 1},
        num_threads=1,
    )
    program = tuner.compile(
        student, trainset=[row.with_inputs("question") for row in rows], teacher=teacher
    )
    assert [one.lm.model for one in program.predictors()] == ended
    # By its name alone, the model is asked for answers as those of OpenAI are.
    litellm: Any = pytest.importorskip("litellm")
    assert litellm.get_llm_provider(ended[0])[1] == "openai"


def test_llama_index(served: Served, data: Path) -> None:
    finetuning: Any = pytest.importorskip("llama_index.finetuning")
    engine = finetuning.OpenAIFinetuneEngine(ALIAS, str(data), validate_json=False)
    engine.finetune()
    model = end(served, engine.get_current_job().id)
    found = engine.get_finetuned_model()
    assert found.model == model
    assert found.metadata.context_window > 0
