import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import CheckpointError
from auctune.train import checkpoint
from auctune.train.checkpoint import (
    Checkpoint,
    DamagedCheckpointError,
    discard_newer,
    load_checkpoint,
    load_latest,
    save_checkpoint,
)

KILLER = Path(__file__).with_name("checkpoint_killer.py")


def make(number: int) -> Checkpoint:
    return Checkpoint({"weights": torch.full((100,), float(number))}, {"number": number})


def save_three(folder: Path, keep: int = 3) -> None:
    for number in (1, 2, 3):
        save_checkpoint(folder, number, make(number), keep)


def latest_number(folder: Path) -> int:
    latest = load_latest(folder)
    assert latest is not None
    assert latest[0].state == {"number": latest[1]}
    assert torch.equal(latest[0].tensors["weights"], torch.full((100,), float(latest[1])))
    return latest[1]


def test_tensors_and_state_come_back_bit_for_bit(tmp_path: Path) -> None:
    base = torch.arange(12, dtype=torch.float32).view(3, 4)
    tensors = {
        "float": torch.tensor([0.1, -0.0, float("inf"), 1e-45]),
        "half": torch.tensor([1.5, 3e38], dtype=torch.bfloat16),
        "turned": base.T,
        "shared": base[1],
        "step": torch.tensor(7),
        "none": torch.empty(0),
        "random": torch.random.get_rng_state(),
    }
    state = {"losses": [[1, 0.1 + 0.2], [2, 1e-300]], "name": "größe", "none": None}
    place = save_checkpoint(tmp_path / "a" / "b", 12, Checkpoint(tensors, state))
    assert place == tmp_path / "a" / "b" / "00000012"
    latest = load_latest(tmp_path / "a" / "b")
    assert latest is not None
    loaded, number, damaged = latest
    assert (number, damaged, loaded.state) == (12, [], state)
    assert loaded.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded.tensors[name].dtype == tensor.dtype
        assert torch.equal(loaded.tensors[name], tensor)


def test_a_file_of_tensors_is_not_held_as_bytes_beside_its_tensors(tmp_path: Path) -> None:
    num_bytes = 4_000_000
    large = Checkpoint({f"{n}": torch.zeros(num_bytes // 16) for n in range(4)})
    # Counts what Python allocates, the bytes of a file included, but not memory of tensors.
    tracemalloc.start()
    try:
        save_checkpoint(tmp_path, 1, large)
        load_latest(tmp_path)
        load_checkpoint(tmp_path, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < num_bytes / 4


def test_no_message_has_the_path_of_a_checkpoint_and_the_log_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save_three(tmp_path)
    (tmp_path / "00000003" / "state.json").unlink()
    messages = [load_latest(tmp_path)[2][0]]  # type: ignore[index]
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", 99)
        save_checkpoint(tmp_path / "other", 7, make(7))
    for use in (
        lambda: save_checkpoint(tmp_path, 1, make(1)),
        lambda: load_checkpoint(tmp_path, 9),
        lambda: load_latest(tmp_path / "other"),
    ):
        with pytest.raises(CheckpointError) as caught:
            use()
        messages.append(str(caught.value))
    for place in tmp_path.glob("0*"):
        (place / "manifest.json").unlink(missing_ok=True)
    with pytest.raises(DamagedCheckpointError) as caught:
        load_latest(tmp_path)
    messages.append(str(caught.value))
    assert len(set(messages)) == 5
    assert [message for message in messages if "checkpoint" not in message] == []
    assert [message for message in messages if str(tmp_path) in message] == []
    for place in (tmp_path / "00000003", tmp_path / "other" / "00000007"):
        assert str(place) in caplog.text


def test_without_any_checkpoint_there_is_none(tmp_path: Path) -> None:
    assert load_latest(tmp_path / "nowhere") is None
    (tmp_path / ".tmp-00000001-dead").mkdir()
    (tmp_path / "notes").mkdir()
    assert load_latest(tmp_path) is None


def test_training_goes_on_from_an_earlier_one_once_those_after_it_are_discarded(
    tmp_path: Path,
) -> None:
    save_three(tmp_path)
    assert load_checkpoint(tmp_path, 2).state == {"number": 2}
    discard_newer(tmp_path, 1)
    assert latest_number(tmp_path) == 1
    with pytest.raises(CheckpointError, match="no checkpoint 2"):
        load_checkpoint(tmp_path, 2)
    save_checkpoint(tmp_path, 2, make(2))
    assert latest_number(tmp_path) == 2


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for number in (1, 5, 6, 10):
        save_checkpoint(tmp_path, number, make(number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000006", "00000010"]
    assert latest_number(tmp_path) == 10


def test_a_number_saved_again_replaces_the_one_before(tmp_path: Path) -> None:
    save_three(tmp_path)
    save_checkpoint(tmp_path, 3, Checkpoint({}, {"number": "new"}))
    latest = load_latest(tmp_path)
    assert latest is not None
    assert latest[0].state == {"number": "new"}


def test_numbers_only_grow(tmp_path: Path) -> None:
    save_three(tmp_path)
    with pytest.raises(CheckpointError, match="numbers only grow"):
        save_checkpoint(tmp_path, 2, make(2))
    assert latest_number(tmp_path) == 3


def test_a_checkpoint_of_another_format_is_neither_skipped_nor_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, 6, make(6))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT", 99)
        place = save_checkpoint(tmp_path, 7, make(7))
    for use in (lambda: load_latest(tmp_path), lambda: save_checkpoint(tmp_path, 2, make(2))):
        with pytest.raises(CheckpointError, match=r"^checkpoint 7 is of format 99") as caught:
            use()
        assert not isinstance(caught.value, DamagedCheckpointError)
    assert place.is_dir()


def test_a_checkpoint_that_cannot_be_read_now_is_neither_skipped_nor_deleted(
    tmp_path: Path,
) -> None:
    save_three(tmp_path)
    state = tmp_path / "00000003" / "state.json"
    # As if its disk were away: the file is there, and reading it is an error of the system.
    state.unlink()
    state.symlink_to(state)
    for use in (lambda: load_latest(tmp_path), lambda: save_checkpoint(tmp_path, 2, make(2))):
        with pytest.raises(OSError, match="symbolic links"):
            use()
    assert state.is_symlink()


def test_a_checkpoint_goes_in_below_a_damaged_one_and_counts_as_the_newest(tmp_path: Path) -> None:
    save_three(tmp_path)
    (tmp_path / "00000003" / "state.json").write_bytes(b"{")
    save_checkpoint(tmp_path, 2, make(2), keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["00000002"]
    assert latest_number(tmp_path) == 2


def test_a_state_that_is_no_json_leaves_nothing_behind(tmp_path: Path) -> None:
    save_three(tmp_path)
    with pytest.raises(TypeError):
        save_checkpoint(tmp_path, 4, Checkpoint({}, {"set": {1}}))
    assert len(list(tmp_path.iterdir())) == 3
    assert latest_number(tmp_path) == 3


@pytest.mark.parametrize(("number", "keep"), [(-1, 1), (1, 0)])
def test_numbers_out_of_range_are_refused(tmp_path: Path, number: int, keep: int) -> None:
    with pytest.raises(ValueError, match="expected number >= 0 and keep >= 1"):
        save_checkpoint(tmp_path, number, make(1), keep)


FILES = ("tensors.safetensors", "state.json", "manifest.json")


@pytest.mark.slow
@given(st.sampled_from(FILES), st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_a_flipped_bit_is_found_and_the_one_before_taken(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: float, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    save_three(folder, keep=2)
    path = folder / "00000003" / name
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    path.write_bytes(content)
    latest = load_latest(folder)
    assert latest is not None
    loaded, number, damaged = latest
    assert (number, loaded.state) == (2, {"number": 2})
    assert len(damaged) == 1
    assert "checkpoint 3:" in damaged[0]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
        lambda path: path.write_bytes(b"[]"),
    ],
    ids=["missing", "empty", "truncated", "longer", "replaced"],
)
def test_a_damaged_file_is_found_and_the_one_before_taken(
    tmp_path: Path, name: str, harm: Callable[[Path], Any]
) -> None:
    save_three(tmp_path)
    harm(tmp_path / "00000003" / name)
    latest = load_latest(tmp_path)
    assert latest is not None
    assert latest[1] == 2
    assert [name in reason for reason in latest[2]] == [True]


def test_a_checkpoint_under_the_number_of_another_is_found(tmp_path: Path) -> None:
    save_three(tmp_path)
    (tmp_path / "00000003").rename(tmp_path / "00000009")
    latest = load_latest(tmp_path)
    assert latest is not None
    assert latest[1] == 2
    assert "another number" in latest[2][0]


def test_if_all_are_damaged_that_is_an_error_that_names_each(tmp_path: Path) -> None:
    save_three(tmp_path, keep=2)
    for place in tmp_path.iterdir():
        (place / "tensors.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"checkpoint 3: .*; checkpoint 2: "):
        load_latest(tmp_path)


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What was found after each writer, for each way to kill them."""
    ended = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path_factory.mktemp("kills"))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, list[dict[str, Any]]] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("keep", [1, 2])
def test_a_writer_killed_at_any_file_operation_leaves_a_whole_checkpoint(
    kills: dict[str, list[dict[str, Any]]], keep: int
) -> None:
    rounds = kills[f"each-{keep}"]
    # Enough operations to have been killed before, at and after the rename.
    assert len(rounds) > 10
    assert {seen["number"] for seen in rounds if seen["killed"]} == {3, 4}
    assert all(seen["damaged"] == [] for seen in rounds)
    assert all(seen["afterwards"] == 5 for seen in rounds)


def test_writers_killed_at_random_never_lose_a_checkpoint_that_was_done(
    kills: dict[str, list[dict[str, Any]]],
) -> None:
    rounds = kills["random"]
    assert len(rounds) == 40
    for seen in rounds:
        assert seen["announced"] <= seen["number"] <= seen["announced"] + 1
        assert seen["damaged"] == []
