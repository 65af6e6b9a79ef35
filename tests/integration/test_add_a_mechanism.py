"""The example of a package with a mechanism of its own, installed for real and run everywhere."""

import importlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import Admission, Cluster, write_snapshot
from auctune.domain.money import LARGEST, STEP
from auctune.registry import mechanisms
from auctune.sim.engine import simulate
from auctune.sim.feasibility import violations
from support.command_line import run_auctune
from support.markets import money, random_market
from support.pages import ROOT, blocks, links
from support.playing import answer, offer_all, utility

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "third-party-mechanism"
PAGE = Path("docs/how-to/add-a-mechanism.md")
MARKET = ["--workload", "nodes=a100:2", "--workload", "rate=3", "--workload", "slots=24"]
SETTINGS = {"price_per_sample": "0.8"}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source") / "package"
    shutil.copytree(EXAMPLE, source)
    target = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    options += ["--no-build-isolation", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return target


@pytest.fixture
def posted(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example can be built by its name."""
    monkeypatch.syspath_prepend(installed)
    importlib.invalidate_caches()


@pytest.mark.usefixtures("posted")
def test_it_runs_by_its_name_and_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def simulate(*options: str) -> None:
        assert run_auctune(["simulate", *MARKET, *options], monkeypatch, capsys)[0] == 0

    price = ("--set", "price_per_sample=2e-4", "--decisions", "posted.jsonl")
    simulate("--mechanism", "posted", *price, "--report", "posted.json")
    alone = json.loads(Path("posted.json").read_text())
    simulate("--compare", "posted:price_per_sample=2e-4,eft", "--report", "both.json")
    first, second = json.loads(Path("both.json").read_text())["mechanisms"]
    assert first["name"] == "posted:price_per_sample=2e-4"
    assert first["welfare"] == alone["welfare"] > 0
    # It refuses bids that EFT, which asks no price, admits.
    assert 0 < first["num_admitted"] < second["num_admitted"]


def make(cluster: Cluster) -> Admission:
    return mechanisms.build("posted", cluster, SETTINGS)


@pytest.mark.usefixtures("posted")
def test_its_decisions_can_be_carried_out_and_cost_no_more_than_was_bid() -> None:
    rng = np.random.default_rng(5)
    admitted = 0
    for _ in range(20):
        market = random_market(rng)
        result = simulate(market, make(market.cluster))
        assert violations(market.cluster, result.tasks, result.decisions) == []
        for task, decision in zip(result.tasks, result.decisions, strict=True):
            admitted += decision.admitted
            assert decision.payment < task.bid or not decision.admitted
    assert admitted > 20


@pytest.mark.usefixtures("posted")
def test_no_misreport_gains() -> None:
    rng = np.random.default_rng(6)
    admitted = unprofitable = 0
    for _ in range(40):
        market = random_market(rng, num_tasks=15)
        mechanism = make(market.cluster)
        offer_all(mechanism, market.tasks[:10])
        task = market.tasks[10]
        honest = answer(mechanism, task)
        price = honest.price or task.bid
        misreports = [Decimal(0), price - STEP, price, price + STEP, 2 * task.bid, LARGEST]
        misreports += [money(float(task.bid) * factor) for factor in rng.uniform(0, 3, 4)]
        for bid in misreports:
            told = utility(answer(mechanism, task, max(bid, Decimal(0))), task.bid)
            assert told <= utility(honest, task.bid)
        admitted += honest.admitted
        unprofitable += honest.reason == "unprofitable"
    assert admitted > 5
    assert unprofitable > 5


@pytest.mark.usefixtures("posted")
def test_a_quote_is_what_is_charged_and_changes_nothing() -> None:
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(20):
        market = random_market(rng, num_tasks=12)
        mechanism = make(market.cluster)
        offer_all(mechanism, market.tasks[:8])
        task = market.tasks[8]
        line = mechanism.quote(task, task.arrival).by(task.deadline)
        again = mechanism.quote(task, task.arrival).by(task.deadline)
        decision = mechanism.offer(task, task.arrival)
        assert line == again
        assert (line is None) == (decision.price is None)
        if line is not None and decision.admitted:
            compared += 1
            assert (line.price, line.schedule) == (decision.payment, decision.schedule)
    assert compared > 3


@pytest.mark.usefixtures("posted")
def test_an_accepted_line_is_charged_as_shown_while_its_cells_are_free() -> None:
    rng = np.random.default_rng(8)
    kept = gone = 0
    for _ in range(40):
        market = random_market(rng, num_tasks=14)
        mechanism = make(market.cluster)
        *others, task = (replace(task, bid=LARGEST) for task in market.tasks[:9])
        line = mechanism.quote(task, task.arrival).by(task.deadline)
        offer_all(mechanism, others)
        if line is None:
            continue
        mechanism.advance(task.arrival)
        before = mechanism.save()
        decision = mechanism.take(task, line, task.arrival)
        if decision is None:
            assert write_snapshot(mechanism.save()) == write_snapshot(before)
            gone += 1
        else:
            assert (decision.payment, decision.schedule) == (line.price, line.schedule)
            kept += 1
    assert kept > 3
    assert gone > 3


def test_the_page_links_the_module_and_shows_its_project_file() -> None:
    linked = {(ROOT / PAGE.parent / link).resolve() for link in links(PAGE)}
    assert EXAMPLE.resolve() / "posted_price.py" in linked
    assert [block.text for block in blocks(PAGE, "ini")] == [
        (EXAMPLE / "pyproject.toml").read_text()
    ]
