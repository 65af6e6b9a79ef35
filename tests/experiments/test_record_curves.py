"""What a downsampled curve keeps, and how a recording ends up in its folder."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain.errors import InputError
from auctune.numerics.rng import stream
from lara_tasks.tasks import TASKS
from record_curves import (
    FIRST_LINES,
    MAX_LINES,
    RECORDINGS,
    Recording,
    choose,
    downsampled,
    line_ends,
    main,
    read_manifest,
    record_all,
    write_curve,
)


@given(st.integers(1, 60_000))
def test_lines_rise_to_the_last_batch_and_are_never_too_many(num_batches: int) -> None:
    ends = line_ends(num_batches)
    assert len(ends) <= MAX_LINES
    assert ends[-1] == num_batches
    steps = np.diff(ends, prepend=0)
    assert (steps > 0).all()
    assert (steps[: min(FIRST_LINES, num_batches)] == 1).all()
    # All lines behind the first ones are equally wide, but for the last.
    assert len(set(steps[FIRST_LINES:-1].tolist())) <= 1
    assert steps[-1] <= steps.max()


@given(st.integers(1, 9_000), st.integers(0, 5))
def test_sums_are_kept_at_the_end_of_each_line(num_batches: int, seed: int) -> None:
    losses = stream(seed, "losses").gamma(2.0, 1.0, num_batches)
    ends, means = downsampled(losses)
    sums = np.cumsum(means * np.diff(ends, prepend=0))
    assert np.allclose(sums, np.cumsum(losses)[ends - 1], rtol=1e-9)


def test_a_file_of_a_long_curve_is_small_and_reads_back(tmp_path: Path) -> None:
    losses = stream(1, "losses").uniform(1e-5, 2.0, 60_000)
    write_curve(tmp_path / "a.csv", losses)
    assert (tmp_path / "a.csv").stat().st_size <= 60_000
    table = np.loadtxt(tmp_path / "a.csv", delimiter=",", skiprows=1)
    ends, means = downsampled(losses)
    assert np.array_equal(table[:, 0], ends)
    assert np.allclose(table[:, 1], means, rtol=1e-4)


def test_recordings_are_the_jobs_of_both_tables() -> None:
    assert [one.kind for one in RECORDINGS if one.bundle == "pure"] == [
        "vit", "lstm", "cnn", "resnet18", "resnet34",
    ]  # fmt: skip
    assert [TASKS[one.kind].area for one in RECORDINGS if one.bundle == "mixed"] == [
        "CV", "CV", "RL", "Audio", "NLP", "CV", "CV", "NLP", "Audio", "RL",
    ]  # fmt: skip
    assert len({one.name for one in RECORDINGS}) == 15
    # Jobs of one kind are not one job twice.
    assert len({(one.kind, one.seed) for one in RECORDINGS}) == 15


def test_a_recording_is_the_same_each_time_and_leaves_others_in_the_manifest(
    tmp_path: Path,
) -> None:
    first = Recording("pure-cnn", "pure", "cnn", 1, 30)
    second = Recording("pure-lstm", "pure", "lstm", 1, 5)
    list(record_all([first], tmp_path))
    written = (tmp_path / "pure-cnn.csv").read_bytes()
    list(record_all([second, first], tmp_path))
    assert (tmp_path / "pure-cnn.csv").read_bytes() == written
    entries = read_manifest(tmp_path)
    assert [entry["name"] for entry in entries] == ["pure-lstm", "pure-cnn"]
    assert [entry["batches"] for entry in entries] == [5, 30]
    assert all(entry["batches_per_second"] > 0 for entry in entries)


@pytest.mark.parametrize("content", ["", "[]", json.dumps({"curves": [1]})])
def test_a_damaged_manifest_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(InputError, match=r"manifest\.json: is damaged"):
        read_manifest(tmp_path)


def test_the_command_records_what_is_missing_and_names_an_unknown_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["pure-cnn", "--batches", "12", "--out", str(tmp_path)])
    assert "pure-cnn: 12 batches" in capsys.readouterr().out
    assert len((tmp_path / "pure-cnn.csv").read_text().splitlines()) == 13
    missing = [recording.name for recording in choose([], tmp_path)]
    assert len(missing) == len(RECORDINGS) - 1
    assert "pure-cnn" not in missing
    with pytest.raises(InputError, match="NAME: 'mixed-99'; expected some of pure-vit"):
        choose(["mixed-99"], tmp_path)
