"""Clients other than the pinned `openai` client fine-tune here, changed by two variables alone.

They want other releases of packages than auctune, so each has an environment of its own in the
folder that AUCTUNE_CLIENTS names; `make clients` makes them and runs this file. The asynchronous
client needs none.
"""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import httpx2
import openai
import pytest

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.service.accounts.registry import DefaultTerms
from auctune.service.config.models import ServiceConfig
from support.openai_service import MODEL, openai_service, run_client
from support.service_process import ServiceProcess, rows_of
from support.serving import ROWS, Served, make_file
from support.waits import poll

pytest_plugins = ["support.served_market"]

ENVIRONMENTS = os.environ.get("AUCTUNE_CLIENTS")
SCRIPTS = Path(__file__).parent.parent / "data"
QUESTION = "What is 3 and 4?"
# Otherwise litellm asks the network for the prices of models.
LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
PROXY_KEY = "sk-proxy"

needs_clients = pytest.mark.skipif(
    ENVIRONMENTS is None, reason="AUCTUNE_CLIENTS names no folder; `make clients` makes one"
)


def program(environment: str, name: str) -> str:
    """Return the path of a program in a client's environment."""
    return str(Path(ENVIRONMENTS or "").absolute() / environment / "bin" / name)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with openai_service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def service_file() -> ServiceConfig:
    terms = DefaultTerms(bid=Decimal(100), deadline="+20m")
    return make_file().model_copy(update={"default_terms": terms, "model_aliases": {MODEL: "tiny"}})


def test_the_asynchronous_client(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{served.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", served.key("ada"))
    operator = served.client()

    def end(job: str) -> str:
        """Have a job succeed; the name of its model."""
        served.wait_for(lambda: operator.fine_tuning.jobs.retrieve(job), "queued")
        served.train(job, 20)
        epoch = EpochMetrics(epoch=1, step=10, train_loss=1.5, train_accuracy=0.25)
        served.finish(job, "ada", epochs=[epoch])
        return str(operator.fine_tuning.jobs.retrieve(job).fine_tuned_model)

    async def play() -> None:
        async with openai.AsyncOpenAI(max_retries=0) as client:
            file = await client.files.create(
                file=("data.jsonl", ROWS.encode()), purpose="fine-tune"
            )
            file = await client.files.wait_for_processing(file.id, poll_interval=0.05)
            assert file.status == "processed"
            jobs = client.fine_tuning.jobs
            job = await jobs.create(model=MODEL, training_file=file.id)
            model = await asyncio.to_thread(end, job.id)
            assert (await jobs.retrieve(job.id)).fine_tuned_model == model
            assert model == f"ft:{MODEL}::{job.id.removeprefix('ftjob-')}"
            events = [event async for event in jobs.list_events(job.id, limit=1)]
            assert {event.type for event in events} == {"message", "metrics"}
            assert [one.step_number async for one in jobs.checkpoints.list(job.id)] == [10]
            assert job.id in [one.id async for one in jobs.list(limit=1)]
            with pytest.raises(openai.BadRequestError):
                await jobs.cancel(job.id)

    asyncio.run(play())


@needs_clients
@pytest.mark.slow
@pytest.mark.parametrize("environment", ["openai", "llama-index", "litellm"])
def test_the_script_runs_with_each_major_release_of_the_client(
    service: ServiceProcess, tmp_path: Path, environment: str
) -> None:
    python = program(environment, "python")
    version = "from importlib.metadata import version; print(version('openai'))"
    major = run_client([python, "-c", version], service, tmp_path).partition(".")[0]
    assert {"openai": "1", "llama-index": "2", "litellm": "3"}[environment] == major
    printed = run_client([python, str(SCRIPTS / "openai_script.py")], service, tmp_path)
    assert json.loads(printed.splitlines()[-1])["streamed"]


@needs_clients
@pytest.mark.slow
def test_the_command_of_client_1(service: ServiceProcess, tmp_path: Path) -> None:
    """All that it does with files, jobs and models; later releases have no command.

    Its `files.retrieve` and `files.delete` want a path and a purpose of every service.
    """
    (tmp_path / "data.jsonl").write_bytes(rows_of(20))

    def api(command: str, **options: str) -> str:
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return run_client([program("openai", "openai"), "api", command, *words], service, tmp_path)

    def job_now(job: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(api("fine_tuning.jobs.retrieve", id=job))
        return found

    file = json.loads(api("files.create", file="data.jsonl", purpose="fine-tune"))["id"]
    assert file in api("files.list")
    job, cancelled = (
        json.loads(
            api(
                "fine_tuning.jobs.create",
                model=MODEL,
                **{"training-file": file},
                suffix="shell",
                hyperparameters=json.dumps({"n_epochs": epochs}),
            )
        )["id"]
        for epochs in (1, 50)
    )
    assert json.loads(api("fine_tuning.jobs.cancel", id=cancelled))["status"] == "cancelled"
    poll(lambda: job_now(job)["status"] == "succeeded", "the job to succeed")
    listed = json.loads(api("fine_tuning.jobs.list", limit="1", after=cancelled))
    assert [one["id"] for one in listed["data"]] == [job]
    events = json.loads(api("fine_tuning.jobs.list_events", id=job, limit="1"))["data"]
    assert [event["message"] for event in events] == ["The adapter is ready"]

    model = str(job_now(job)["fine_tuned_model"])
    assert model == f"ft:{MODEL}:shell:{job.removeprefix('ftjob-')}"
    assert model in api("models.list")
    assert json.loads(api("models.retrieve", id=model))["id"] == model
    asked = [program("openai", "openai"), "api", "chat.completions.create", "--model", model]
    asked += ["--message", "user", QUESTION, "--max-tokens", "8", "--temperature", "0"]
    text = run_client(asked, service, tmp_path)
    assert text.strip()
    assert run_client([*asked, "--stream"], service, tmp_path).strip() == text.strip()
    assert api("completions.create", model=model, prompt=QUESTION, **{"max-tokens": "4"})
    assert json.loads(api("models.delete", id=model))["deleted"]


@needs_clients
@pytest.mark.slow
@pytest.mark.parametrize("name", ["litellm", "dspy", "llama-index"])
def test_a_client_fine_tunes_and_asks_the_model(
    service: ServiceProcess, tmp_path: Path, name: str
) -> None:
    variables = dict(LITELLM)
    if name == "llama-index":
        # It fine-tunes at the address of the one variable, and asks at that of the other.
        variables["OPENAI_API_BASE"] = f"{service.url}/v1"
    script = SCRIPTS / f"{name.replace('-', '_')}_script.py"
    printed = run_client([program(name, "python"), str(script)], service, tmp_path, **variables)
    found = json.loads(printed.splitlines()[-1])
    assert found["model"].startswith(f"ft:{MODEL}:")
    assert found["text"]


@pytest.fixture(scope="module")
def proxy(service: ServiceProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of litellm's proxy in front of the service, without a database."""
    folder = tmp_path_factory.mktemp("proxy")
    here = {"api_base": f"{service.url}/v1", "api_key": service.key}
    settings = {
        "model_list": [{"model_name": "*", "litellm_params": {"model": "openai/*", **here}}],
        "files_settings": [{"custom_llm_provider": "openai", **here}],
        "finetune_settings": [{"custom_llm_provider": "openai", **here}],
        "general_settings": {"master_key": PROXY_KEY},
    }
    # JSON is YAML.
    (folder / "config.yaml").write_text(json.dumps(settings))
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    # Its routes that pass requests on know no address but these variables.
    passing = {"OPENAI_API_BASE": service.url, "OPENAI_API_KEY": service.key}
    log = folder / "proxy.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [program("litellm", "litellm"), *options],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **LITELLM, **passing},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            return httpx2.get(f"{url}/health/liveliness").status_code == 200
        except httpx2.TransportError:
            return False

    try:
        poll(is_up, "the proxy to answer")
        yield url
    finally:
        process.kill()
        process.wait()


@needs_clients
@pytest.mark.slow
def test_litellm_as_a_proxy(proxy: str) -> None:
    with (
        openai.OpenAI(base_url=f"{proxy}/v1", api_key=PROXY_KEY, max_retries=0) as client,
        openai.OpenAI(
            base_url=f"{proxy}/openai_passthrough/v1", api_key=PROXY_KEY, max_retries=0
        ) as passed_on,
    ):
        data = rows_of(20)
        file = client.files.create(file=("data.jsonl", data), purpose="fine-tune")
        client.files.wait_for_processing(file.id, poll_interval=0.05)
        assert client.files.content(file.id).read() == data
        assert file.id in [one.id for one in client.files.list()]

        # The proxy's own routes of fine-tuning are part of its enterprise edition: without a
        # license they refuse before the service is asked. Its routes that pass requests on do not.
        with pytest.raises(openai.InternalServerError):
            client.fine_tuning.jobs.create(
                model=MODEL, training_file=file.id, extra_body={"custom_llm_provider": "openai"}
            )
        jobs = passed_on.fine_tuning.jobs
        job = jobs.create(model=MODEL, training_file=file.id, suffix="proxy")
        poll(lambda: jobs.retrieve(job.id).status == "succeeded", "the job to succeed")
        done = jobs.retrieve(job.id)
        assert job.id in [one.id for one in jobs.list(limit=1)]
        assert "The adapter is ready" in [one.message for one in jobs.list_events(job.id, limit=2)]
        assert len(list(jobs.checkpoints.list(job.id))) == done.hyperparameters.n_epochs
        assert passed_on.files.content(done.result_files[0]).read().startswith(b"step,train_loss")
        model = done.fine_tuned_model
        assert model == f"ft:{MODEL}:proxy:{job.id.removeprefix('ftjob-')}"
        assert model in [one.id for one in passed_on.models.list()]

        for one in (client, passed_on):
            answer = one.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": QUESTION}],
                max_tokens=8,
                temperature=0,
            )
            text = answer.choices[0].message.content
            assert text
            assert answer.usage.completion_tokens > 0
            stream = one.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": QUESTION}],
                max_tokens=8,
                temperature=0,
                stream=True,
            )
            parts = [part.choices[0].delta.content for part in stream if part.choices]
            assert "".join(part or "" for part in parts) == text
        assert client.completions.create(model=model, prompt=QUESTION, max_tokens=4).choices[0].text
        assert client.files.delete(file.id).deleted
