"""Workloads from settings: each key reaches what it names, and what is wrong is named."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.instance import Instance
from auctune.sim.instance_file import instance_json, parse_instance
from auctune.sim.traces.job_log import JobLog, make_log
from auctune.sim.workloads.build import KEYS, build_workload, is_key
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance

PROFILE = Path(__file__).parents[4] / "examples/first-market/cpu-core.json"


def make_job_log(days: int = 3, per_day: int = 100) -> JobLog:
    times = np.sort(np.random.default_rng(1).uniform(0, days * 86_400, days * per_day))
    number = np.arange(1.0, len(times) + 1)
    return make_log("x", times, np.full(len(times), 2.0), number, [""] * len(times))


def digest(market: Instance) -> str:
    bids = [(t.arrival, t.deadline, int(t.work), str(t.bid)) for t in market.tasks]
    return hashlib.sha256(json.dumps(bids).encode()).hexdigest()[:12]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SyntheticParams(), "eb4bc99ceb3d"),
        (
            SyntheticParams(
                nodes={"a40": 10, "a100": 20}, rate=80, num_vendors=10, needs_vendor=1.0, seed=7
            ),
            "fa3db16e87b7",
        ),
    ],
)
def test_a_synthetic_day_is_the_one_that_published_figures_were_made_with(
    params: SyntheticParams, expected: str
) -> None:
    assert digest(make_instance(params)) == expected


def test_no_settings_are_the_default_day() -> None:
    assert instance_json(build_workload({})) == instance_json(make_instance(SyntheticParams()))


def test_settings_reach_what_they_name() -> None:
    market = build_workload(
        {
            "nodes": "a40:2,a100:1",
            "days": "0.5",
            "slot_seconds": "300",
            "rate": "2",
            "num_vendors": "3",
            "needs_vendor": "1",
            "base_memory_gb": "5",
            "seed": "9",
        }
    )
    cluster = market.cluster
    assert [node.type for node in cluster.nodes] == ["a40", "a40", "a100"]
    assert (cluster.slots, cluster.slot_seconds, cluster.base_memory_gb) == (144, 300.0, 5.0)
    assert cluster.node_types["a100"].compute == 20_000
    assert {len(task.quotes) for task in market.tasks} == {3}
    assert len(market.tasks) == pytest.approx(288, abs=70)
    assert market.real_energy_cost is None


def test_bids_arrive_as_the_jobs_of_a_log() -> None:
    log = make_job_log()
    market = build_workload({"start_day": "1", "days": "2"}, log)
    wanted = log.window(1, 2).counts(288, 600.0)
    assert np.bincount([t.arrival for t in market.tasks], minlength=288).tolist() == wanted.tolist()
    assert {int(task.work) % 1 for task in market.tasks} == {0}
    assert max(task.work for task in market.tasks) <= 100_000


def test_work_may_be_that_of_the_logs_jobs() -> None:
    log = make_job_log()
    market = build_workload({"work": "log"}, log)
    # 40,000 samples in 600 s on the quickest node, times 2 GPUs and the job's seconds.
    wanted = [40_000 / 600 * 2 * seconds for seconds in log.window(0, 1).duration_s.tolist()]
    assert [task.work for task in market.tasks] == pytest.approx(wanted)


def test_bursty_arrivals_need_no_log_and_take_one() -> None:
    alone = build_workload({"arrivals": "bursty", "days": "20", "rate": "3", "nodes": "a40:1"})
    assert len(alone.tasks) == pytest.approx(20 * 144 * 3, rel=0.6)
    fitted = build_workload(
        {"arrivals": "bursty", "days": "20", "fit_days": "2", "nodes": "a40:1"}, make_job_log()
    )
    counts = np.bincount([task.arrival // 144 for task in fitted.tasks], minlength=20)
    assert counts.mean() == pytest.approx(100, rel=0.2)


def test_prices_of_electricity_are_floored_for_mechanisms_and_real_for_accounts(
    tmp_path: Path,
) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text("t_s,price_usd_per_mwh\n0,50\n86400,100\n129600,-100\n")
    settings = {"energy": str(prices), "energy_start_day": "1", "nodes": "a100:1", "rate": "0.1"}
    market = build_workload(settings)
    seen, real = (
        np.array(costs).reshape(2, 72)
        for costs in (
            market.cluster.node_types["a100"].energy_cost,
            (market.real_energy_cost or {})["a100"],
        )
    )
    hour = 0.4 / 6 * 100 / 1000
    assert seen == pytest.approx(np.array([[hour], [0.0]]) * np.ones((2, 72)))
    assert real == pytest.approx(np.array([[hour], [-hour]]) * np.ones((2, 72)))
    assert parse_instance(json.loads(json.dumps(instance_json(market)))) == market


def test_a_device_of_ones_own_works_beside_those_shipped() -> None:
    settings = {
        "device.core": str(PROFILE),
        "power_kw.core": "0.01",
        "sample_tokens": "64",
        "nodes": "core:2,a40:1",
        "rate": "0.2",
    }
    market = build_workload(settings)
    assert set(market.cluster.node_types) == {"core", "a40"}
    assert all(set(task.throughput) == {"core", "a40"} for task in market.tasks)
    assert market.cluster.base_memory_gb == 2.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hours": "3"}, "hours: is no setting of a workload; expected one of rate, slots"),
        ({"device": "x.json"}, "device: is no setting of a workload"),
        ({"rate.x": "1"}, "rate.x: is no setting of a workload"),
        ({"power_kw.x": "1"}, "power_kw.x: is of no device; expected device.x as well"),
        ({"power_kw.x": "hot", "device.x": str(PROFILE)}, "power_kw.x: 'hot'; expected kW >= 0"),
        ({"device.x": str(PROFILE)}, "power_kw.x: is not set, and"),
        ({"nodes": "a100"}, "nodes: 'a100'; expected DEVICE:COUNT"),
        ({"nodes": "a100:x"}, "nodes: 'a100:x'; expected DEVICE:COUNT"),
        ({"nodes": "a100:1,a100:2"}, "nodes: 'a100' is there twice; expected each device once"),
        ({"nodes": "a100:0"}, "nodes.a100: 0; expected a number of nodes >= 1"),
        ({"nodes": "h100:4"}, "nodes.h100: is no device; expected one of a100, a40"),
        ({"slots": "0"}, "slots: 0; expected a number of slots >= 1"),
        ({"days": "1", "slots": "144"}, "days: is given with slots; expected one of the two"),
        ({"days": "0.0001"}, "days: 0.0001 days are 0.0144 slots; expected a whole number"),
        ({"days": "-1"}, "days: -1.0; expected a number of days > 0"),
        ({"rate": "-2"}, "rate: -2.0; expected a number >= 0"),
        ({"arrivals": "log"}, "arrivals: 'log' without a job log; expected poisson or bursty"),
        ({"arrivals": "often"}, "arrivals: 'often'; expected one of auto, poisson, bursty, log"),
        ({"start_day": "1"}, "start_day: says nothing here; expected a job log"),
        ({"work": "log"}, "work: 'log' without a job log; expected 'drawn'"),
        ({"energy_start_day": "1"}, "energy_start_day: says nothing here"),
        ({"scaling": "repeat"}, "scaling: says nothing here; expected arrivals of a job log, and"),
        ({"energy": "x", "price_per_mwh": "3"}, "price_per_mwh: is given with energy"),
        ({"deadlines": "never"}, "deadlines: 'never'; expected one of tight, medium, loose"),
        ({"share": "0"}, "share: 0.0; expected a share in (0, 1]"),
        ({"seed": "-1"}, "seed: -1; expected a whole number >= 0"),
        ({"sample_tokens": "0"}, "sample_tokens: 0.0; expected tokens of a sample > 0"),
    ],
)
def test_a_setting_that_is_wrong_is_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build_workload(settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"arrivals": "poisson"}, "arrivals: 'poisson' with a job log; expected log or bursty"),
        ({"fit_days": "2"}, "fit_days: says nothing here"),
        ({"scaling": "repeat"}, "scaling: says nothing here"),
        ({"scaling": "more", "rate": "3"}, "scaling: 'more'; expected one of superpose, repeat"),
        ({"days": "9"}, "start_day: 0 and 9 days from there go beyond the log"),
        ({"rate": "0"}, "rate: 0.0; expected bids a slot > 0"),
    ],
)
def test_a_setting_that_does_not_go_with_a_log_is_named(
    settings: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        build_workload(settings, make_job_log())
    assert str(caught.value).startswith(message)


def test_places_of_errors_are_told_to_be_settings_or_files() -> None:
    assert all(is_key(key) for key in KEYS)
    assert is_key("nodes.h100")
    assert not is_key("/data/rate.csv: line 3: rate")
