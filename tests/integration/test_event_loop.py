"""No route holds the event loop for long, however many jobs and files there are."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from auctune.service.http.middleware import MAX_STEP_SECONDS
from auctune.service.page.app import page_routes
from auctune.service.server import freeze_startup_objects
from auctune.service.storage import WriteBatch, tables
from auctune.service.storage.committer import durable
from auctune.service.storage.queries import MAX_PAGE_BYTES, metadata_rows
from support.page_visitor import PageVisitor
from support.serving import Served, make_file, serving
from support.store_rows import answer_rows, event_row

pytestmark = pytest.mark.slow

NUM_JOBS, NUM_FILES, NUM_CHARGES, NUM_MODELS = 10_000, 9_900, 10_000, 5_000
NUM_LONG_SLOTS, NUM_STEPS = 100, 5_000
LONG_JOB = f"ftjob-{0:024}"
METADATA = {f"key {number}": "x" * 512 for number in range(16)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A market in which Ada has many ended jobs with large metadata, models, files and charges.

    One of the jobs was trained in long slots.
    """
    with serving(tmp_path_factory.mktemp("market"), make_file(files=50_000)) as served:
        key = served.key("ada")
        client, file = served.client(key), served.upload(key)
        client.files.wait_for_processing(file, poll_interval=0.05)
        market = {"market": {"bid": "100", "deadline": "+20m"}}
        job = client.fine_tuning.jobs.create(
            model="tiny", training_file=file, metadata=METADATA, extra_body=market
        )
        served.finish(job.id, "ada")
        served.run(lambda: _fill(served, job.id, file))
        with frozen_objects():
            yield served


@contextmanager
def frozen_objects() -> Iterator[None]:
    """Collect garbage as a served process does: what pytest has imported takes no step's time."""
    thresholds = gc.get_threshold()
    freeze_startup_objects()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


async def _fill(served: Served, job: str, file: str) -> None:
    service = served.service
    of_job, of_file = service.queries.job(job), service.queries.file(file)
    assert of_job is not None
    assert of_file is not None
    ended, names = orjson.loads(of_job.body), []
    for part in range(NUM_JOBS // 500):
        batch = WriteBatch()
        for seq in range(first := service.committer.next_seq(500), first + 500):
            name = LONG_JOB if (part, seq) == (0, first) else f"ftjob-{seq:024}"
            batch.insert(tables.events, event_row(seq, "closed", name, type="slot.started"))
            names.append(name)
            body = orjson.dumps({**ended, "files": [adapter_of(name)]})
            row = {**of_job._asdict(), "id": name, "seq": seq, "body": body}
            batch.upsert(tables.jobs, row)
            batch.insert(tables.job_metadata, *metadata_rows(seq, of_job.owner, METADATA))
        await durable(service.committer, batch)
    batch = WriteBatch()
    for seq in range(first := service.committer.next_seq(NUM_FILES), first + NUM_FILES):
        batch.upsert(tables.files, {**of_file._asdict(), "id": f"file-{seq:024}", "seq": seq})
    await durable(service.committer, batch)
    batch, first = WriteBatch(), service.committer.next_seq(NUM_MODELS)
    for seq, job in zip(range(first, first + NUM_MODELS), names, strict=False):
        result = {"id": adapter_of(job), "seq": seq, "filename": f"{job}.zip"}
        result["purpose"] = "fine-tune-results"
        batch.upsert(tables.files, {**of_file._asdict(), **result})
    await durable(service.committer, batch)
    batch, first = WriteBatch(), service.committer.next_seq(3 * NUM_CHARGES)
    for number in range(NUM_CHARGES):
        model = f"model {number}"
        event, of_event = answer_rows(first + 3 * number, "ada", service.now(), model)
        batch.insert(tables.events, event).insert(tables.entries, *of_event)
    await durable(service.committer, batch)
    batch, body = WriteBatch(), orjson.dumps(long_slot())
    for seq in range(first := service.committer.next_seq(NUM_LONG_SLOTS), first + NUM_LONG_SLOTS):
        event = event_row(seq, "closed", LONG_JOB, type="job.trained", body=body)
        batch.insert(tables.events, event)
    await durable(service.committer, batch)


def adapter_of(job: str) -> str:
    return f"file-{job.removeprefix('ftjob-')}adapter"


def long_slot() -> dict[str, Any]:
    """The body of an event `job.trained` with many steps."""
    losses = [[step, 8 * step, 3200 * step, 2 / (1 + step), 0.5] for step in range(NUM_STEPS)]
    result = {"rows": 10, "total_rows": 20, "tokens": 100, "steps": 10, "losses": losses}
    more: dict[str, Any] = {"state": "suspended", "note": None, "validation": []}
    return {"node": "default-0", "slot": 3, "seconds": 50.0, "result": result | more}


def long_steps(served: Served) -> dict[str, float]:
    """CPU seconds for which routes have held the event loop at once, if those are many."""
    text = served.service.metrics.render().decode()
    return {
        sample.labels["route"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "auctune_loop_step_seconds" and sample.value > MAX_STEP_SECONDS
    }


def forget_steps(served: Served) -> None:
    served.service.metrics.forget_steps()


def test_no_route_of_the_api_holds_the_event_loop(filled: Served) -> None:
    # The first time something is imported, compiled or cached.
    ask_all(filled)
    forget_steps(filled)
    ask_all(filled)
    assert long_steps(filled) == {}


def test_no_page_holds_the_event_loop(filled: Served) -> None:
    visit_all(filled)
    forget_steps(filled)
    visit_all(filled)
    assert long_steps(filled) == {}


def test_a_page_of_events_of_long_slots_ends_early(filled: Served) -> None:
    found, sizes, has_more = [], [], True
    path, params = f"/v1/fine_tuning/jobs/{LONG_JOB}/events", {"limit": "100"}
    with filled.http(filled.key("ada")) as http:
        while has_more:
            answer = http.get(path, params=params)
            page = answer.json()
            sizes.append(len(answer.content))
            found += page["data"]
            params["after"], has_more = found[-1]["id"], page["has_more"]
        stream = http.get(f"{path}/stream").text
    assert len(found) == NUM_LONG_SLOTS == stream.count("event: job.trained")
    assert {len(event["data"]["steps"]) for event in found} == {NUM_STEPS}
    assert max(sizes) < 4 * MAX_PAGE_BYTES < sum(sizes) / 10


def ask_all(served: Served) -> None:
    """Ask all routes of the API that read, with their largest limits, and some that do more."""
    key = served.key("ada")
    with served.http(key) as user, served.http(served.operator) as operator:
        jobs = user.get("/v1/fine_tuning/jobs", params={"limit": 100}).json()["data"]
        files = user.get("/v1/files", params={"limit": 10_000}).json()["data"]
        assert (len(jobs), len(files)) == (100, 100)
        document = operator.get("/openapi.json").json()
        named = _Named(job_id=LONG_JOB, file_id=files[-1]["id"], zone_id="default")
        asked = 0
        for path, methods in document["paths"].items():
            if "get" not in methods or path.endswith("/stream"):
                continue
            parameters = {one["name"]: one for one in methods["get"].get("parameters", ())}
            limit = parameters.get("limit", {"schema": {}})["schema"].get("maximum")
            params = {} if limit is None else {"limit": limit}
            for http in (user, operator):
                status = http.get(path.format_map(named), params=params).status_code
                assert status < 500, (path, status)
                asked += status == 200
        assert asked > 20
        assert len(user.get("/v1/models").json()["data"]) > NUM_MODELS
        for pair, count in (({"no such key": "x"}, 0), ({"key 1": "x" * 512}, 100)):
            params = {f"metadata[{name}]": value for name, value in pair.items()} | {"limit": 100}
            found = user.get("/v1/fine_tuning/jobs", params=params)
            assert len(found.json()["data"]) == count
        body: dict[str, Any] = {"model": "tiny", "training_file": served.upload(key)}
        body |= {"metadata": METADATA, "market": {"bid": "0.0001", "deadline": "+20m"}}
        for route in ("/v1/quotes", "/v1/fine_tuning/jobs"):
            assert user.post(route, json=body).status_code == 200
        served.upload(key, rows='{"text": "%s"}\n' % ("word " * 400_000))


def visit_all(served: Served) -> None:
    """Visit all pages, as their user and as an operator."""
    visitors = PageVisitor(served, served.key("ada")), PageVisitor(served, served.operator)
    named = _Named(job_id=LONG_JOB, zone_id="default", name="page.css")
    for path, method, _ in page_routes():
        if method == "GET" and not path.endswith("/news"):
            for visitor in visitors:
                visitor.get("/page" + path.format_map(named))


class _Named(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "none"
