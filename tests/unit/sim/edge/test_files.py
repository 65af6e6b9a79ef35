"""Edge instance and decision files: what is written is read back, what is wrong is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.edge import ByDuration, Eris, ErisEntry, ErisParams
from auctune.sim.edge.comparison import play
from auctune.sim.edge.decision_file import parse_edge_decision, write_edge_decisions
from auctune.sim.edge.instance_file import (
    EdgeInstance,
    edge_instance_json,
    parse_edge_instance,
    read_edge_instance,
    write_edge_instance,
)
from auctune.sim.edge.settings import make_instance, paper_testbed, setting_of
from support.edge_plans import JOB, MARKET

INSTANCE = EdgeInstance(MARKET, (JOB,))


def test_an_instance_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    for instance in (INSTANCE, make_instance(paper_testbed(num_jobs=3))):
        write_edge_instance(instance, path)
        assert read_edge_instance(path) == instance


def test_an_instance_with_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    instance = EdgeInstance(MARKET, (JOB,), make_instance(paper_testbed(num_jobs=3)).jobs)
    write_edge_instance(instance, path)
    assert read_edge_instance(path) == instance
    assert "history" not in edge_instance_json(INSTANCE)


def test_prices_begin_with_the_worth_of_the_history() -> None:
    instance = make_instance(paper_testbed(num_jobs=3))
    before = make_instance(paper_testbed(num_jobs=4, seed=1)).jobs
    known = EdgeInstance(instance.market, instance.jobs, before)
    assert sum(one.payment for one in play("eris", ErisEntry(), instance).decisions[:1]) == 0
    first = play("eris", ErisEntry(), known).decisions[0]
    assert first.payment > 0
    worth = sum(job.utility(0) for job in before) / len(before)
    eris = Eris(instance.market, ErisParams(worth=worth))
    job = instance.in_order()[0]
    assert first == eris.offer(job, job.arrival)


def test_a_table_of_values_is_read_as_it_was_written() -> None:
    data = edge_instance_json(INSTANCE)
    data["jobs"][0]["utility"] = {"form": "table", "values": [5.0, 2.5]}
    read = parse_edge_instance(data)
    assert read.jobs[0].utility == ByDuration((5.0, 2.5))
    assert edge_instance_json(read) == data


def test_decisions_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    decisions = play("eris", ErisEntry(), make_instance(paper_testbed(num_jobs=6))).decisions
    with path.open("w", encoding="utf-8") as file:
        write_edge_decisions(decisions, file)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert tuple(map(parse_edge_decision, lines)) == decisions
    first = lines[0]
    assert list(first) == [
        "job", "admitted", "payment", "utility", "surplus", "finish", "plan", "reason"
    ]  # fmt: skip
    assert list(first["plan"][0]) == ["slot", "workers", "server", "moves"]


def changed(path: str, value: Any) -> Any:
    """The instance's JSON with something else at a place such as `jobs.0.arrival`."""
    data: Any = json.loads(json.dumps(edge_instance_json(INSTANCE)))
    at = data
    *parts, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in parts:
        at = at[part]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("slots", 0, "slots: 0; expected a number of slots >= 1"),
        ("slots", "5", "slots: '5'; expected a number of slots >= 1"),
        ("slots", None, "slots: is missing; expected a number of slots >= 1"),
        ("more", 1, "more: is an unknown key; expected one of slots, sites"),
        ("sites.1.id", "a", "sites[1].id: 'a' is there twice; expected each id once"),
        ("sites.0.capacity.gpu", -1, "sites[0].capacity.gpu: -1.0; expected units >= 0"),
        ("jobs.0.arrival", 9, "jobs[0]: arrival: 9; expected a slot from 0 to 4"),
        ("jobs.0.chunks.a", 1.5, "jobs[0].chunks.a: 1.5; expected a number of chunks"),
        ("jobs.0.epochs", 0, "jobs[0].epochs: 0; expected a whole number >= 1"),
        ("jobs.0.utility.form", "cubic", "jobs[0].utility.form: 'cubic'; expected logistic or"),
        ("jobs.0.utility.decay", 0, "jobs[0].utility.decay: 0.0; expected slots > 0"),
        ("jobs.0.utility.scale", None, "jobs[0].utility.scale: is missing; expected money >= 0"),
        ("slots", 10**12, "slots: 1000000000000; expected 2500000 at most"),
        ("slots", 10**400, "slots: 1000000000000000000000000000000000000000; expected"),
        ("jobs.0.epochs", 10**400, "jobs[0].epochs: 1000000000000000000000000000000000000000;"),
        ("jobs.0.chunks.a", 10**12, "jobs[0].chunks: 1000000000003; expected 10000 at most"),
        ("jobs.0.chunks_per_worker_slot", 1e-300, "jobs[0].chunks_per_worker_slot: 1e-300; "),
        ("jobs.0.chunks_per_worker_slot", 1e300, "jobs[0].chunks_per_worker_slot: 1e+300; "),
        ("sites.0.capacity.gpu", 1e300, "sites[0].capacity.gpu: 1e+300; expected 1e+11 at most"),
        ("jobs.0.utility.scale", 1e300, "jobs[0].utility.scale: 1e+300; expected 1e+11 at most"),
        ("jobs", [[1]], "jobs[0]: a list; expected an object with id, arrival"),
        ("price_base.disk", 5, "price_base.disk: is no type of a site; expected data, gpu, cpu"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(path: str, value: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_edge_instance(changed(path, value))
    assert str(caught.value).startswith(said)


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    path.write_text("{")
    with pytest.raises(InputError, match=r"instance\.json: the file: is not JSON"):
        read_edge_instance(path)


def test_a_file_that_is_a_list_is_refused() -> None:
    with pytest.raises(InputError, match="the file: a list; expected an object"):
        parse_edge_instance([])


def test_a_job_has_so_many_chunks_that_a_table_of_all_slots_holds_them() -> None:
    data = changed("slots", 2_500_000)
    with pytest.raises(InputError, match=r"jobs\[0\]: chunks: 8; expected 4 at most"):
        parse_edge_instance(data)


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("cpu", "0.5", "sites"),
        ("chunks", "1", "sites"),
        ("chunks", "1000000000", "chunks"),
        ("num_sites", "1000000000000", "num_sites"),
        ("num_jobs", "1000000000000", "num_jobs"),
    ],
)
def test_a_setting_that_cannot_be_made_is_refused(name: str, value: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        make_instance(setting_of("simulation", {name: value}))
    assert caught.value.place == place


def test_a_seed_makes_the_same_jobs_and_another_seed_others() -> None:
    assert make_instance(paper_testbed()) == make_instance(paper_testbed())
    assert make_instance(paper_testbed()) != make_instance(paper_testbed(seed=1))


def test_the_settings_are_the_papers() -> None:
    simulation = make_instance(setting_of("simulation", {"num_jobs": "3"})).market
    assert (len(simulation.sites), simulation.slots) == (50, 150)
    assert simulation.traffic_mb_per_slot == 20_000
    assert dict(simulation.sites[0].capacity) == {"gpu": 4, "cpu": 24, "ram_gb": 32}
    machines = make_instance(paper_testbed())
    assert (len(machines.market.sites), machines.market.slots, len(machines.jobs)) == (9, 50, 10)
    assert max(job.arrival for job in machines.jobs) < 40


def test_eight_workers_need_six_to_twelve_slots() -> None:
    for job in make_instance(paper_testbed(num_jobs=60)).jobs:
        slots = job.epochs * job.num_chunks / (8 * job.chunks_per_worker_slot)
        assert 6 <= slots <= 12
        # One chunk's workers fit an empty machine.
        needed = job.workers_for(1)
        assert all(
            needed * job.worker[kind] <= units
            for kind, units in (("gpu", 1), ("cpu", 12), ("ram_gb", 16))
        )


@pytest.mark.parametrize(
    ("name", "changes", "place"),
    [
        ("lab", {}, "setting"),
        ("testbed", {"num_sites": "0"}, "num_sites"),
        ("testbed", {"slots": "x"}, "slots"),
        ("testbed", {"arrival_slots": "51"}, "arrival_slots"),
        ("testbed", {"least_slots": "13"}, "least_slots"),
        ("testbed", {"spread": "0"}, "spread"),
        ("testbed", {"seed": "-1"}, "seed"),
        ("testbed", {"size": "1"}, "size"),
    ],
)
def test_a_setting_names_what_is_wrong(name: str, changes: dict[str, str], place: str) -> None:
    with pytest.raises(InputError) as caught:
        setting_of(name, changes)
    assert caught.value.place == place


def test_fewer_slots_have_arrivals_in_all_of_them() -> None:
    assert setting_of("testbed", {"slots": "12"}).arrival_slots == 12
