"""What a run is started with, kept in its folder and found there again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.engine.spot.traces import make_trace
from auctune.sim.spot.trace import read_market
from auctune.standalone.spot import SpotRunFolder, begin_spot, read_inputs
from auctune.standalone.spot_inputs import (
    RunInputs,
    find_inputs,
    make_config,
    prepare_job,
)
from auctune.train.adapter_files import read_start
from support.peft_adapters import save_adapter
from support.spot_files import JOB, TRAINING, daily_market, write_job, write_market, write_rows
from support.spot_settings import SPOT_SETTINGS

SETTINGS = replace(SPOT_SETTINGS, start=2)


@pytest.fixture
def given(tmp_path: Path) -> RunInputs:
    job = write_job(tmp_path / "job.toml", JOB + TRAINING)
    write_rows(tmp_path / "rows.jsonl", 8)
    market = write_market(tmp_path / "market.csv", daily_market(20))
    return find_inputs(job, market, None, SETTINGS)


def copied(given: RunInputs, folder: Path) -> RunInputs:
    """What a run that has begun in a folder finds there."""
    place = SpotRunFolder(folder)
    with begin_spot(given, place, cache=folder):
        pass
    return read_inputs(place)


def with_prices(given: RunInputs, folder: Path) -> RunInputs:
    """The same with prices of another file, twice as dear."""
    market = daily_market(20)
    dear = type(market)(2 * market.price, market.available, slot_seconds=600)
    return replace(given, prices=write_market(folder / "prices.csv", dear))


@pytest.mark.parametrize("has_prices", [False, True])
def test_what_is_kept_is_what_was_given(given: RunInputs, tmp_path: Path, has_prices: bool) -> None:
    if has_prices:
        given = with_prices(given, tmp_path)
    kept = copied(given, tmp_path / "run")
    assert kept.settings == given.settings
    assert kept.settings.base == "tiny"
    for name in ("job", "market", "data", *(["prices"] if has_prices else [])):
        assert getattr(kept, name).read_bytes() == getattr(given, name).read_bytes()
    assert (kept.prices is not None) == has_prices
    before = make_config(given.read_job(), given, given, tmp_path)
    after = make_config(kept.read_job(), kept, kept, tmp_path)
    assert after.identity() == before.identity()
    market = read_market(kept.recipe(kept.read_job()))
    assert np.allclose(market.price, daily_market(20).price * (2 if has_prices else 1))


def test_the_adapter_that_a_job_starts_from_is_kept_and_its_settings_are_the_jobs(
    given: RunInputs, tmp_path: Path
) -> None:
    save_adapter(tmp_path / "start")
    text = JOB + TRAINING + 'start_from = "start"\nmethod = "dpo"\n'
    job = write_job(tmp_path / "job.toml", text)
    found = find_inputs(job, given.market, None, SETTINGS)
    kept = copied(found, tmp_path / "run")
    before = make_config(found.read_job(), found, kept, tmp_path)
    after = make_config(kept.read_job(), kept, kept, tmp_path)
    assert before == after
    assert (after.workers.job.rank, after.workers.job.method) == (3, "dpo")
    start, _ = read_start(after.workers.job.start_from or Path(), "start_from")
    assert after.workers.job.start_digest == start.digest
    write_job(job, text + "rank = 8\n")
    with pytest.raises(InputError, match=r"job\.toml: training\.rank: 8, where the adapter"):
        make_config(found.read_job(), found, found, tmp_path)
    write_job(job, text.replace('"start"', '"nowhere"'))
    with pytest.raises(InputError, match=r"training\.start_from: there is no 'nowhere'"):
        find_inputs(job, given.market, None, SETTINGS)


def test_a_base_beside_the_job_is_found_from_anywhere(given: RunInputs, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    job = write_job(tmp_path / "job.toml", (JOB + TRAINING).replace('"tiny"', '"mine"'))
    found = find_inputs(job, given.market, None, SETTINGS)
    assert found.settings.base == str((tmp_path / "mine").resolve())


def test_a_trace_is_as_fine_as_its_file_and_begins_with_the_job(
    given: RunInputs, tmp_path: Path
) -> None:
    # Slots of half an hour, lines of ten minutes.
    text = (JOB + TRAINING).replace("slot_seconds = 600", "slot_seconds = 1800")
    file = find_inputs(write_job(tmp_path / "job.toml", text), given.market, None, SETTINGS)
    parsed = file.read_job()
    recipe = file.recipe(parsed)
    market = read_market(recipe)
    assert market.num_slots == 6
    trace = make_trace(recipe, market, parsed.spot_job(), 2)
    lines = daily_market(20)
    assert np.allclose(trace.times, np.arange(12) / 3)
    assert trace.available.tolist() == lines.available[6:18].tolist()
    with pytest.raises(InputError, match="start: 3; expected 0 to 2"):
        make_trace(recipe, market, parsed.spot_job(), 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"start": 17}, "start: 17; expected 0 to 16"),
        ({"policy": "best"}, "policy: 'best' is not offered"),
        ({"forecast": "best"}, "forecast: 'best' is not offered"),
        ({"threads": 0}, "threads: 0"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_kept(
    given: RunInputs, tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    prepare_job(given, given, tmp_path)
    settings = replace(given.settings, **changes)  # type: ignore[arg-type]
    changed = replace(given, settings=settings)
    with pytest.raises(InputError) as refused:
        prepare_job(changed, changed, tmp_path)
    assert says in str(refused.value)
