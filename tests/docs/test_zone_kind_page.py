"""The example of a package with a kind of zone: installed, served, trained on, and as its page."""

import asyncio
import importlib
import io
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auctune.engine.unix_time import to_rfc3339
from auctune.service.accounts.registry import Budget
from auctune.service.config.models import ServiceConfig, read_config
from auctune.service.storage import EventLog, Snapshots
from auctune.service.zones.core.snapshots import replay_until
from auctune.service.zones.core.state import ZoneModel
from auctune.service.zones.kinds import check_service, find_kind
from support.command_line import run_auctune
from support.page_visitor import PageVisitor
from support.pages import ROOT, blocks, links
from support.serving import Served, made_up_facts, serving
from support.zone_state import records

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "third-party-zone-kind"
PAGE = Path("docs/how-to/add-a-zone-kind.md")
# By these facts, a job of `ROWS` takes some ten slots; it is trained in fewer.
FACTS = made_up_facts(speed=0.1)
ROWS = "".join(
    f'{{"prompt": "how is the weather on day {day}", "completion": "rain and {day} degrees"}}\n'
    for day in range(40)
)
OVER = ("succeeded", "failed", "cancelled")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example can be found, as pip leaves it."""
    source, target = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source)
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    options += ["--no-build-isolation", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    monkeypatch.syspath_prepend(target)
    importlib.invalidate_caches()
    find_kind.cache_clear()
    yield
    find_kind.cache_clear()


def page_config(folder: Path) -> ServiceConfig:
    """The settings on the page, which are written into a folder."""
    (block,) = blocks(PAGE, "toml")
    file = folder / "auctune.toml"
    file.write_text(block.text)
    config = read_config(file)
    check_service(config)
    return config


def submit(served: Served, user: str, file: str, **market: Any) -> Any:
    body = {"market": {"lora": {"rank": 4}, **market}}
    return served.client(served.users[user]).fine_tuning.jobs.create(
        model="tiny", training_file=file, hyperparameters={"n_epochs": 1}, extra_body=body
    )


def wait_until_over(served: Served, name: str) -> Any:
    """A job's row, once it has ended."""
    service = served.service

    async def over() -> Any:
        with service.notifier.subscribe(name) as changed:
            while True:
                changed.clear()
                job = await service.job(name, None)
                if job is not None and job.status in OVER:
                    return job
                await changed.wait()

    return asyncio.run_coroutine_threadsafe(over(), served.loop).result(300)


def get(served: Served, path: str) -> Any:
    with served.http(served.operator) as client:
        return client.get(path).raise_for_status().json()


def balances(served: Served) -> dict[str, Decimal]:
    answer = get(served, "/v1/ledger/balances")
    return {name: Decimal(amount) for name, amount in answer["accounts"].items() if Decimal(amount)}


def assert_refold_equals_state(served: Served) -> None:
    """The events alone give the state that the zone has."""
    zone = served.service.zones["queue"]
    seq, live = zone.actor.submit(lambda one: (one.model.seq, one.model.save())).result(60)
    reader = served.service.store.reader

    def empty() -> ZoneModel[Any, Any]:
        state = type(zone.actor.submit(lambda one: one.model.state).result(60))
        return ZoneModel(state(), None)

    folded, count = replay_until("queue", empty, EventLog(reader), Snapshots(reader), seq)
    assert count > 10
    assert folded.save()["state"].tobytes() == live["state"].tobytes()


@pytest.mark.usefixtures("installed")
def test_jobs_are_trained_in_order_of_arrival_at_the_price_of_the_page(
    tmp_path: Path,
    tiny_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = page_config(tmp_path)
    data = tmp_path / "data"
    with serving(data, config, base=FACTS, cache=tiny_cache) as served:
        served.key("ada")
        served.key("ben", budget=Budget(Decimal("0.0001"), 30.0))
        file = served.upload(rows=ROWS)
        first, second = submit(served, "ada", file), submit(served, "ada", file)
        price = Decimal(first.market["payment"])
        assert price > 0
        assert second.market["payment"] == first.market["payment"]
        assert second.estimated_finish > first.estimated_finish
        late = to_rfc3339(second.estimated_finish)
        refused = {
            "no_feasible_schedule": submit(served, "ada", file, deadline="+4s"),
            "no_capacity": submit(served, "ada", file, deadline=late),
            "unprofitable": submit(served, "ada", file, max_cost=str(price)),
            "over_budget": submit(served, "ben", served.upload(served.users["ben"], rows=ROWS)),
        }
        assert {reason: job.market["reason"] for reason, job in refused.items()} == {
            reason: reason for reason in refused
        }
        assert refused["no_capacity"].error.param == "market.deadline"
        queue = [one["job"] for one in records(get(served, "/v1/zones/queue/state"), "Queue")]
        assert queue == [first.id, second.id][-len(queue) :]
        connection = ("--url", served.url, "--api-key", served.operator)
        command = ["prices", "--zone", "queue"]
        code, shown, _ = run_auctune([*command, *connection], monkeypatch, capsys)
        assert code == 0
        assert "zone: queue" in shown
        assert "Queue. Jobs in order of arrival." in shown
        done = [wait_until_over(served, job.id) for job in (first, second)]
        assert [job.status for job in done] == ["succeeded", "succeeded"]
        assert done[0].body["finished_at"] < done[1].body["finished_at"]
        content = served.client().files.content(done[0].body["files"][-1]).read()
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
        assert any(name.endswith("adapter_model.safetensors") for name in names)
        zone_page = PageVisitor(served, served.operator).get("/page/zones/queue").text
        assert first.id in zone_page
        assert "Jobs in order of arrival." in zone_page
        job_page = PageVisitor(served, served.users["ada"]).get(f"/page/jobs/{first.id}")
        assert "Trains on queue-0" in job_page.text
        assert balances(served) == {"user:ada": 2 * price, "revenue": -2 * price}
        third = submit(served, "ada", file)
        assert_refold_equals_state(served)
    with serving(data, config, base=FACTS, cache=tiny_cache) as served:
        assert_refold_equals_state(served)
        served.key("ada")
        assert wait_until_over(served, third.id).status == "succeeded"
        assert balances(served) == {"user:ada": 3 * price, "revenue": -3 * price}
        events = served.client().fine_tuning.jobs.list_events(third.id).data
        assert "Trains on queue-0" in [event.message for event in events]
    named = ["--data", str(data), "--config", str(tmp_path / "auctune.toml"), "--zone", "queue"]
    code, _, errors = run_auctune(["replay", *named], monkeypatch, capsys)
    assert code == 2
    assert errors == [
        "auctune: --zone: 'queue' is of kind fcfs; expected a zone of kind auction, spot, "
        "timeshare, edge"
    ]


def test_the_page_links_each_module_and_quotes_them_as_they_are() -> None:
    modules = sorted((EXAMPLE / "auctune_fcfs").glob("[a-z]*.py"))
    sources = [module.read_text() for module in modules]
    linked = {(ROOT / PAGE.parent / link).resolve() for link in links(PAGE)}
    assert set(modules) <= linked
    for block in blocks(PAGE, "python"):
        assert any(block.text in source for source in sources)
    assert [block.text for block in blocks(PAGE, "ini")] == [
        (EXAMPLE / "pyproject.toml").read_text()
    ]
