"""The demo: its adapters load with plain PEFT and do better on their own data than the base."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from auctune.standalone.market import run_market
from auctune.train.tiny import tiny_folder
from support.adapted import losses
from support.market_runs import EXAMPLE, quiet, read_decisions, read_events, report_of

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow

ADMITTED = ("weather", "support", "recipes", "sums", "partcodes", "travel", "garden")
# Share of the base's loss on a task's own data that its adapter must save, at least.
MARGIN = 0.5


@pytest.fixture(scope="session")
def first_market(cache_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one run of the demo's market."""
    out = tmp_path_factory.mktemp("first-market") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_home))
        run_market(EXAMPLE / "market.toml", out, quiet())
    return out


def test_the_demo_admits_most_bids_rejects_two_and_has_one_data_set_repaired(
    first_market: Path,
) -> None:
    decisions = {line["task"]: line for line in read_decisions(first_market)}
    reasons = {task: line["reason"] for task, line in decisions.items() if not line["admitted"]}

    assert tuple(task for task, line in decisions.items() if line["admitted"]) == ADMITTED
    assert reasons == {"bargain": "unprofitable", "tomorrow": "no_feasible_schedule"}
    assert [line["vendor"] for line in decisions.values() if line["vendor"]] == ["house"]
    nodes = {cell["node"] for line in decisions.values() for cell in line["schedule"]}
    assert nodes == {"alpha", "beta"}


def test_every_payment_is_at_most_the_bid_and_the_same_everywhere(first_market: Path) -> None:
    for task in report_of(first_market).tasks:
        if task.admitted:
            path = first_market / "tasks" / task.id / "receipt.json"
            receipt = json.loads(path.read_bytes())
            assert Decimal(receipt["payment"]) == task.payment <= task.bid
            assert receipt["outcome"] == "done"


def test_every_task_is_done_within_its_plan(first_market: Path) -> None:
    for event in read_events(first_market):
        if event["type"] == "job.trained":
            assert event["result"]["rows"] > 0
    for task in report_of(first_market).tasks:
        if task.admitted:
            assert task.finished_slot is not None
            assert task.finished_slot <= task.deadline


@pytest.mark.parametrize("task", ADMITTED)
def test_every_adapter_loads_with_plain_peft_and_lowers_the_loss_on_its_own_data(
    task: str, first_market: Path, tiny_cache: Path
) -> None:
    adapter = first_market / "tasks" / task / "adapter"

    before, after = losses(tiny_folder(tiny_cache), adapter, _data(first_market, task))

    assert after < (1 - MARGIN) * before


def _data(out: Path, task: str) -> Path:
    repaired = out / "state" / "work" / task / "data.jsonl"
    return repaired if repaired.exists() else EXAMPLE / "data" / f"{task}.jsonl"
