"""The engine asks in order, times each answer, and its figures come from the decisions alone."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from auctune.auction import Pdftsp, make_eft
from auctune.domain import (
    Admission,
    Cell,
    Cluster,
    Commitment,
    Decision,
    Event,
    Explanation,
    InputError,
    MarketState,
    MenuLine,
    Node,
    NodeType,
    PriceMenu,
    Quote,
    Reason,
    Replanned,
    Saved,
    Schedule,
    Task,
)
from auctune.files.atomic import AtomicFiles
from auctune.files.json_file import write_json, write_line
from auctune.sim.engine import SimulationResult, simulate, warm_up
from auctune.sim.instance import Instance
from auctune.sim.metrics import measure
from auctune.sim.result_file import decision_json
from auctune.sim.tally import Accounts, vendor_price
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance
from support.markets import random_market

CLUSTER = Cluster(
    3,
    60.0,
    1.0,
    {"big": NodeType(8.0, 9.0, (0.8, 1.6, 0.0)), "small": NodeType(4.0, 5.0, (1.0, 1.0, 1.0))},
    (Node("b", "big"), Node("s", "small")),
)
FIRST = Task(
    "x", 0, 2, 6.0, 2.0, Decimal("9.0000"), {"big": 4.0}, (Quote("v", Decimal("1.5000"), 1),)
)
SECOND = Task("y", 1, 2, 2.0, 1.0, Decimal("5.0000"), {"small": 2.0}, (), {"small": (0.0, 0.25, 0)})
MARKET = Instance(CLUSTER, (SECOND, FIRST))


class Scripted:
    """Answers from a script; remembers what it was asked."""

    by_slot = False

    def __init__(self, script: dict[str, Decision]) -> None:
        self.script = script
        self.asked: list[tuple[str, int]] = []
        self.begun: list[int] = []

    def advance(self, now: int) -> tuple[Event, ...]:
        self.begun.append(now)
        return ()

    def offer(self, task: Task, now: int) -> Decision:
        self.asked.append((task.id, now))
        return self.script[task.id]

    def offer_slot(self, tasks: Sequence[Task], now: int) -> list[Decision]:
        self.asked.append((f"slot of {len(tasks)}", now))
        return [self.script[task.id] for task in tasks]

    def quote(self, task: Task, now: int) -> PriceMenu:
        return PriceMenu(task.id, ())

    def preview(self, task: Task, now: int) -> Decision:
        raise AssertionError

    def take(self, task: Task, line: MenuLine, now: int) -> Decision | None:
        raise AssertionError

    def explain(self, task: Task, chosen: Decision | Schedule, now: int) -> Explanation:
        raise AssertionError

    def release(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        raise AssertionError

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> None:
        raise NotImplementedError

    def plan_rest(self, rest: Task, now: int) -> None:
        raise NotImplementedError

    def lose_node(self, node: str, now: int, running: Sequence[Commitment]) -> list[Replanned]:
        raise AssertionError

    def state(self) -> MarketState:
        raise AssertionError

    def apply(self, event: Event) -> None:
        raise AssertionError

    def save(self) -> Saved:
        raise AssertionError

    def load(self, saved: Saved) -> None:
        raise AssertionError


def admitted(task: Task, payment: str, vendor: str | None, *cells: tuple[int, str]) -> Decision:
    plan = Schedule(tuple(Cell(*cell) for cell in cells), vendor)
    return Decision(task.id, True, Decimal(payment), None, plan, 1 / 3, 0.1)


SCRIPT = {
    "x": admitted(FIRST, "4.1000", "v", (1, "b"), (2, "b")),
    "y": admitted(SECOND, "0.2500", None, (1, "s")),
}


def test_bids_are_offered_by_arrival_and_in_file_order_within_a_slot() -> None:
    tasks = tuple(
        replace(SECOND, id=name, arrival=slot) for name, slot in [("a", 2), ("b", 0), ("c", 2)]
    )
    rejected = {t.id: Decision(t.id, False, reason=Reason.NO_CAPACITY) for t in tasks}
    mechanism = Scripted(rejected)
    seen: list[str] = []
    result = simulate(
        Instance(CLUSTER, tasks), mechanism, watch=lambda task, decision: seen.append(decision.task)
    )
    assert mechanism.asked == [("b", 0), ("a", 2), ("c", 2)]
    assert mechanism.begun == [0, 0, 1, 2, 2, 2]  # once a slot, and before each bid
    assert seen == [task.id for task in result.tasks] == ["b", "a", "c"]
    assert [decision.task for decision in result.decisions] == seen
    assert all(seconds >= 0 for seconds in result.decision_seconds)


def test_a_mechanism_that_weighs_bids_is_offered_a_slot_at_once() -> None:
    mechanism = Scripted(SCRIPT)
    mechanism.by_slot = True
    result = simulate(Instance(CLUSTER, (FIRST, replace(SECOND, arrival=0))), mechanism)
    assert mechanism.asked == [("slot of 2", 0)]
    assert result.decision_seconds[0] == result.decision_seconds[1]


def test_figures_follow_from_the_decisions() -> None:
    report = measure(simulate(MARKET, Scripted(SCRIPT)))
    # Energy 1.6 and 0.0 at half load, and the second task's own 0.25.
    assert report.operating_cost == pytest.approx(0.8 + 0.25)
    assert report.vendor_cost == 1.5
    assert report.revenue == 4.35
    assert report.welfare == pytest.approx(14 - 1.5 - 1.05)
    assert (report.num_tasks, report.num_admitted) == (2, 2)
    assert report.utilization.compute == pytest.approx((0, 6 / 12, 4 / 12))
    assert report.utilization.memory == pytest.approx((0, 3 / 12, 2 / 12))


def test_welfare_is_what_users_and_provider_gain_together() -> None:
    market = random_market(np.random.default_rng(21))
    result = simulate(market, Pdftsp(market.cluster))
    report = measure(result)
    users = sum(
        float(task.bid - decision.payment)
        for task, decision in zip(result.tasks, result.decisions, strict=True)
        if decision.admitted
    )
    provider = report.revenue - report.vendor_cost - report.operating_cost
    assert report.welfare == pytest.approx(users + provider)
    values = [decision.value for decision in result.decisions if decision.value is not None]
    assert report.welfare == pytest.approx(sum(values))


def test_a_market_without_bids_has_no_decision_times() -> None:
    report = measure(SimulationResult(Instance(CLUSTER, ()), (), (), ()))
    assert report.welfare == report.revenue == report.num_tasks == 0
    assert report.decision_seconds.p50 is None


def test_the_report_has_its_keys_in_order() -> None:
    file = StringIO()
    write_json(measure(simulate(MARKET, Scripted(SCRIPT))).to_json(), file)
    data = json.loads(file.getvalue())
    assert list(data) == [
        "welfare",
        "revenue",
        "vendor_cost",
        "operating_cost",
        "num_tasks",
        "num_admitted",
        "utilization",
        "decision_seconds",
        "learning_seconds",
        "bound",
    ]
    assert {name: list(data[name]) for name in ("utilization", "decision_seconds", "bound")} == {
        "utilization": ["compute", "memory"],
        "decision_seconds": ["p50", "p99", "max"],
        "bound": ["kind", "value", "ratio"],
    }
    assert data["bound"] == {"kind": "none", "value": None, "ratio": None}
    assert data["learning_seconds"] > 0.0


def test_a_decision_line_keeps_value_and_surplus_to_the_last_bit() -> None:
    file = StringIO()
    write_line(decision_json(SCRIPT["x"]), file)
    line = json.loads(file.getvalue())
    assert file.getvalue().count("\n") == 1
    assert (line["value"], line["surplus"], line["payment"]) == (1 / 3, 0.1, 4.1)
    assert line["schedule"] == [{"slot": 1, "node": "b"}, {"slot": 2, "node": "b"}]


def test_a_rejection_line_has_nulls_zero_and_a_reason() -> None:
    rejected = Decision("t", False, price=Decimal("1.0000"), reason=Reason.UNPROFITABLE)
    assert list(decision_json(rejected).items()) == [
        ("task", "t"),
        ("admitted", False),
        ("vendor", None),
        ("payment", 0),
        ("value", None),
        ("surplus", None),
        ("schedule", []),
        ("reason", "unprofitable"),
    ]


def test_accounts_know_energy_own_costs_and_vendors() -> None:
    accounts = Accounts(CLUSTER)
    plan = Schedule((Cell(0, "b"), Cell(1, "b")), "v")
    assert accounts.operating_cost(FIRST, plan) == pytest.approx(0.5 * 0.8 + 0.5 * 1.6)
    assert accounts.operating_cost(SECOND, Schedule((Cell(1, "s"),))) == 0.25
    assert vendor_price(FIRST, plan) == Decimal("1.5000")
    assert vendor_price(SECOND, Schedule((Cell(1, "s"),))) == 0


def test_warming_up_leaves_the_market_as_it_is() -> None:
    made: list[Admission] = []

    def make() -> Admission:
        made.append(make_eft(CLUSTER))
        return made[-1]

    warm_up(MARKET, make)
    warm_up(Instance(CLUSTER, ()), make)
    assert len(made) == 1


def test_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with AtomicFiles(paths) as (first, second):
        first.write("1")
        second.write("2")
        assert not any(path.exists() for path in paths)
    assert [path.read_text() for path in paths] == ["1", "2"]
    with contextlib.suppress(ZeroDivisionError), AtomicFiles(paths) as (first, _):
        first.write(f"{1 / 0}")
    assert [path.read_text() for path in paths] == ["1", "2"]
    assert sorted(tmp_path.iterdir()) == paths


def test_a_file_written_through_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with AtomicFiles([tmp_path / "link"]) as (file,):
        file.write("1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "1"


@pytest.mark.parametrize("name", ["/dev/null", "nowhere/file"])
def test_a_place_that_takes_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError), AtomicFiles([tmp_path / name]):
        pass
    assert not list(tmp_path.iterdir())


def test_a_synthetic_day_is_drawn_by_its_seed() -> None:
    params = SyntheticParams(nodes={"a100": 2, "a40": 2}, rate=2.0)
    assert make_instance(params) == make_instance(params)
    assert make_instance(params) != make_instance(replace(params, seed=1))


def test_a_synthetic_day_has_about_the_bids_that_its_rate_says() -> None:
    instance = make_instance(SyntheticParams(nodes={"a100": 1}, rate=20.0))
    # Poisson with mean 2880: six standard deviations are 322.
    assert abs(len(instance.tasks) - 20 * 144) < 322
    assert {len(task.quotes) for task in instance.tasks} == {0, 5}


def test_a_synthetic_workload_out_of_range_is_refused() -> None:
    with pytest.raises(InputError, match=r"nodes.h100: is no device; expected one of a100, a40"):
        SyntheticParams(nodes={"h100": 1})
    with pytest.raises(InputError, match="deadlines: 'soon'"):
        SyntheticParams(deadlines="soon")  # type: ignore[arg-type]  # as from a file
    with pytest.raises(InputError, match="num_vendors"):
        SyntheticParams(num_vendors=-1)
