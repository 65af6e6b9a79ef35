"""Runs of an instance whose sites are scripted: what is decided, lost, billed, and resumed."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from auctune.domain import InputError
from auctune.domain.money import ZERO
from auctune.edge import EdgeCommitment, EdgeJob, EdgePlan, Eris, ErisParams
from auctune.engine.edge.edge_folder import SlotOutcome
from auctune.engine.edge.inputs import EdgeRunInputs, EdgeTraining
from auctune.engine.edge.records import SlotRequest
from auctune.engine.messages.sites import JobFailed, SlotEnd, SlotLost, SlotTrained
from auctune.replay.edge import EdgeVerifier
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.standalone.edge import (
    EdgeRun,
    EdgeRunError,
    EdgeRunFolder,
    begin_run,
    open_run,
    resume_edge,
    run_edge,
)
from auctune.standalone.edge_console import EdgeConsole
from auctune.standalone.edge_report import EdgeRunReport
from auctune.train.adapter_files import read_start
from auctune.train.job import LoraJob
from support.edge_plans import lose_site
from support.edge_runs import MARKET, Watcher, make_job, read_log
from support.edge_zones import outcome_of
from support.peft_adapters import save_adapter

JOB = make_job(2)
LOST = SlotLost("", "a site that was to train it is gone", failed=False)


@dataclass
class ScriptedSites:
    """Trains all that is requested, but for some slots of jobs, and loses sites."""

    ends: Mapping[tuple[str, int], SlotEnd] = field(default_factory=dict)
    lost_in: Mapping[int, str] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    run: EdgeRun | None = None
    requests: list[SlotRequest] = field(default_factory=list)

    def check_sites(self) -> None:
        pass

    def retain_only(self, jobs: Sequence[str]) -> None:
        pass

    def run_slot(self, slot: int, requests: Sequence[SlotRequest]) -> Iterator[SlotEnd]:
        for one in requests:
            self.requests.append(one)
            found = self.ends.get((one.job.id, slot))
            if found is None:
                yield SlotTrained(one.job.id, replace(outcome_of(one), **self.changes))
                continue
            if slot in self.lost_in and self.run is not None:
                self.run.lose_site(self.lost_in[slot])
            yield replace(found, job=one.job.id)


def make_inputs(*jobs: EdgeJob, **more: Any) -> EdgeRunInputs:
    """Jobs whose rows nobody reads."""
    trainings = {
        job.id: EdgeTraining(
            base="tiny", cache="", config=LoraJob(id=job.id, data=Path()), rows={"a": "a", "b": "b"}
        )
        for job in jobs
    }
    return EdgeRunInputs(EdgeInstance(MARKET, jobs), trainings, **more)


@contextmanager
def begun(path: Path, *jobs: EdgeJob, **more: Any) -> Iterator[tuple[EdgeRun, EdgeRunFolder]]:
    folder = EdgeRunFolder(path)
    path.mkdir(exist_ok=True)
    begin_run(make_inputs(*jobs, **more), folder)
    with open_run(folder, Watcher()) as run:
        yield run, folder


def finish(run: EdgeRun, sites: ScriptedSites) -> EdgeRunReport:
    sites.run = run
    trainer: Any = sites
    run.run_slots(trainer)
    return run.report()


def torn(slot: int = 1) -> ScriptedSites:
    """Site b is lost within a slot."""
    return ScriptedSites({("job", slot): LOST}, {slot: "b"})


def test_decisions_are_those_of_a_simulation(tmp_path: Path) -> None:
    jobs = [replace(JOB, id=f"{index}", arrival=index // 2) for index in range(6)]
    params = ErisParams(worth=80, search="printed")
    with begun(tmp_path, *jobs, params=params) as (run, folder):
        finish(run, ScriptedSites())
    eris, logged = Eris(MARKET, params), read_log(folder)
    expected = [eris.offer(job, job.arrival) for job in jobs]
    assert [logged.answer(job.id) for job in jobs] == expected
    assert {one.admitted for one in expected} == {True, False}


def test_chunks_of_a_torn_slot_are_trained_later_and_elsewhere(tmp_path: Path) -> None:
    with begun(tmp_path, JOB) as (run, folder):
        report = finish(run, torn())
    logged = read_log(folder)
    decision, ended = logged.answer("job"), logged.state.ended["job"]
    assert decision.plan is not None
    assert 1 not in {part.slot for part in ended.plan.slots}
    assert ended.plan.chunks_before(100) == JOB.chunks
    assert all("b" not in part.workers for part in ended.plan.since(2).slots)
    (bill,) = report.jobs
    assert (bill.state, bill.lost_slots, bill.finish) == ("done", 1, ended.plan.finish)
    assert (bill.slots, bill.promised) == (len(ended.plan.slots), decision.finish)
    assert report.lost == {"b": 2}
    # As of the mechanism alone.
    eris = Eris(MARKET)
    eris.offer(JOB, 0)
    kept = EdgePlan(tuple(part for part in decision.plan.slots if part.slot != 1))
    (found,) = lose_site(eris, "b", 2, [EdgeCommitment(JOB, kept)])
    assert found.found == ended.plan.since(2)


def test_a_resumed_run_has_sold_the_same_and_its_log_is_verified(tmp_path: Path) -> None:
    with begun(tmp_path, JOB) as (run, folder):
        finish(run, torn())
        live = run.zone.call(lambda zone: zone.eris.save())
    logged = read_log(folder)
    again = logged.mechanism.save()
    for name in ("traffic", "used", "closed"):
        assert (again[name] == live[name]).all()
    verified = EdgeVerifier(logged.events[0].body).verify_log(logged.events)
    assert verified.is_identical
    assert verified.counts == {"decisions": 1, "payments": 1}


def test_a_job_without_another_plan_is_refunded_in_full(tmp_path: Path) -> None:
    slot = MARKET.slots - 1
    late = replace(JOB, arrival=slot, chunks={"a": 1, "b": 1})
    with begun(tmp_path, late, params=ErisParams(worth=1)) as (run, _):
        report = finish(run, torn(slot))
    (bill,) = report.jobs
    assert bill.payment > 0
    assert (bill.state, bill.refund, bill.utility) == ("refunded", bill.payment, 0)
    assert bill.lost_slots == 1


@pytest.mark.parametrize(
    "change", [{"losses": ((1, 4, 9, float("nan"), 0.0),)}, {"validation_loss": float("inf")}]
)
def test_a_job_whose_training_diverges_fails_and_is_not_refunded(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    changes = {"loss": float("nan"), **change}
    with begun(tmp_path, JOB) as (run, folder):
        report = finish(run, ScriptedSites(changes=changes))
    (bill,) = report.jobs
    assert (bill.state, bill.refund, bill.utility, bill.slots) == ("failed", ZERO, 0.0, 1)
    assert not read_log(folder).mechanism.ledger.used[1:].any()
    (plain,) = json.loads(folder.report.read_text(), parse_constant=pytest.fail)["jobs"]
    assert (plain["loss"], plain["validation_loss"]) == (None, None)


def test_a_job_whose_rows_are_lost_is_refunded_and_releases_its_plan(tmp_path: Path) -> None:
    gone = SlotLost("", "its rows have no place now", rows_lost=True)
    with begun(tmp_path, JOB, params=ErisParams(worth=1)) as (run, folder):
        (bill,) = finish(run, ScriptedSites({("job", 1): gone})).jobs
    assert bill.payment > 0
    assert (bill.state, bill.refund, bill.lost_slots) == ("refunded", bill.payment, 0)
    assert not read_log(folder).mechanism.ledger.used[2:].any()


@pytest.mark.parametrize("end", [JobFailed("", "rows.a: has changed"), SlotLost("", "no memory")])
def test_a_run_stops_at_what_its_owner_can_mend_and_goes_on_from_there(
    tmp_path: Path, end: SlotEnd
) -> None:
    with (
        begun(tmp_path, JOB) as (run, _),
        pytest.raises(EdgeRunError, match=r"job job(:| cannot be trained:)"),
    ):
        finish(run, ScriptedSites({("job", 1): end}))
    sites = ScriptedSites()
    with open_run(EdgeRunFolder(tmp_path), Watcher()) as run:
        (bill,) = finish(run, sites).jobs
    assert (bill.state, bill.lost_slots) == ("done", 0)
    # What was trained is not requested again.
    assert sites.requests[0].part.slot == 1
    assert sites.requests[0].steps > 0


def test_a_site_that_was_lost_between_slots_is_not_used_from_the_next_one_on(
    tmp_path: Path,
) -> None:
    class Between(ScriptedSites):
        def check_sites(self) -> None:
            if self.requests and self.run is not None:
                self.run.lose_site("b")

    with begun(tmp_path, JOB) as (run, folder):
        report = finish(run, Between())
    assert report.lost == {"b": 1}
    ended = read_log(folder).state.ended["job"]
    assert ended.plan.slots[1].slot == 1
    assert not ended.uses({"b"}, 1)
    assert report.jobs[0].lost_slots == 0


def test_a_run_that_ended_writes_its_report_again_without_a_cluster(tmp_path: Path) -> None:
    with begun(tmp_path, JOB, ray="127.0.0.1:1") as (run, folder):
        report = finish(run, torn())
    folder.report.unlink()
    assert resume_edge(folder, Watcher()) == report
    assert json.loads(folder.report.read_bytes())["jobs"][0]["state"] == "done"


def test_what_happens_is_shown_line_by_line(tmp_path: Path) -> None:
    folder, text = EdgeRunFolder(tmp_path), io.StringIO()
    begin_run(make_inputs(JOB), folder)
    with open_run(folder, EdgeConsole(Console(file=text, width=120))) as run:
        finish(run, torn())
    lines = text.getvalue().splitlines()
    promised = read_log(folder).answer("job")
    assert lines[0].strip() == f"job admitted, pays 0.0000, finishes in slot {promised.finish}"
    assert lines[1] == "slot   0  1 training"
    assert "at a" in lines[2]
    assert lines[4].strip() == "site b was lost"
    assert lines[5].strip().startswith("job continues at other sites, finishes in slot ")
    assert lines[-1].endswith("1.0 s, done")


def test_a_run_keeps_its_own_copy_of_an_adapter_to_start_from(tmp_path: Path) -> None:
    source = save_adapter(tmp_path / "start")
    start, _ = read_start(source, "start_from")
    inputs = make_inputs(JOB)
    training = inputs.trainings["job"]
    config = replace(training.config, start_from=source, start_digest=start.digest)
    inputs = replace(inputs, trainings={"job": replace(training, config=config)})
    folder = EdgeRunFolder(tmp_path / "out")
    folder.root.mkdir()
    begin_run(inputs, folder)
    with open_run(folder, Watcher()) as run:
        kept = run.inputs.trainings["job"].config
    assert kept.start_from is not None
    assert kept.start_from != source
    assert read_start(kept.start_from, "start_from")[0].digest == start.digest
    assert replace(kept, start_from=source) == config
    kept.start_from.write_bytes(b"changed")
    with (
        pytest.raises(InputError, match="is not as it was when the run began"),
        open_run(folder, Watcher()),
    ):
        pass


@pytest.mark.parametrize(
    ("change", "place"),
    [({"ray": "127.0.0.1:1"}, "does not answer"), ({"device": "cuda:99"}, "--device: 'cuda:99'")],
)
def test_a_cluster_or_device_that_is_not_there_leaves_no_folder(
    tmp_path: Path, change: dict[str, str], place: str
) -> None:
    folder = EdgeRunFolder(tmp_path / "out")
    with pytest.raises(InputError, match=place):
        run_edge(make_inputs(JOB, **change), folder, Watcher())
    assert not folder.root.exists()


def test_an_outcome_is_recorded_as_it_was(tmp_path: Path) -> None:
    with begun(tmp_path, JOB) as (run, folder):
        finish(run, sites := ScriptedSites())
    outcomes = [SlotOutcome(**one) for one in read_log(folder).outcomes("job")]
    steps = [one.steps + one.part.chunks for one in sites.requests]
    assert [one.steps for one in outcomes] == steps
    losses = (folder.result("job") / "losses.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in losses] == [
        point[0] for one in outcomes for point in one.losses
    ]
