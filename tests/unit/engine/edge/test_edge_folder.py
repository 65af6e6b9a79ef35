"""What is kept of jobs and their slots in a folder."""

from pathlib import Path

import numpy as np
import pytest

from auctune.domain.errors import CheckpointError
from auctune.engine.edge.edge_folder import EdgeFolder, SiteRows
from auctune.train.adapter_files import EPOCHS, epoch_folders
from auctune.train.checkpoint import Checkpoint
from support.edge_runs import make_request
from support.edge_zones import outcome_of

VALUES = np.arange(5, dtype=np.float32)


def state_of(steps: int) -> Checkpoint:
    tensors = {"adapter": VALUES * steps, "exp_avg": VALUES, "exp_avg_sq": VALUES}
    return Checkpoint(tensors, {"base_digest": "digest", "steps": steps, "rows": 8})


def test_a_state_is_read_as_it_was_written_and_older_ones_go(tmp_path: Path) -> None:
    folder = EdgeFolder(tmp_path)
    for before, steps in ((0, 3), (3, 7)):
        folder.write_checkpoint("a/b", state_of(steps), before)
    found = folder.read_checkpoint("a/b", 7)
    assert found is not None
    np.testing.assert_array_equal(found.tensors["adapter"], VALUES * 7)
    assert found.state == {"base_digest": "digest", "steps": 7, "rows": 8}
    assert folder.read_checkpoint("a/b", 0) is None
    folder.write_checkpoint("a/b", state_of(9), 7)
    with pytest.raises(CheckpointError, match="no checkpoint 3"):
        folder.read_checkpoint("a/b", 3)


def test_a_slot_that_is_trained_again_may_take_fewer_steps(tmp_path: Path) -> None:
    folder = EdgeFolder(tmp_path)
    for before, steps in ((0, 3), (3, 7), (3, 5)):
        folder.write_checkpoint("job", state_of(steps), before)
    for steps in (3, 5):
        assert folder.read_checkpoint("job", steps) is not None
    with pytest.raises(CheckpointError, match="no checkpoint 7"):
        folder.read_checkpoint("job", 7)


def test_the_adapters_after_the_last_slots_are_kept(tmp_path: Path) -> None:
    folder = EdgeFolder(tmp_path)
    epochs = folder.adapter("job").parent / EPOCHS
    for number, kept in ((1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [2, 3, 4]), (5, [3, 4, 5])):
        folder.write_epoch("job", number, {"weights": bytes([number])})
        assert [one for one, _ in epoch_folders(epochs)] == kept
    # Slots whose results were not recorded are trained again.
    folder.write_epoch("job", 4, {"weights": b"again"})
    assert [one for one, _ in epoch_folders(epochs)] == [3, 4]
    assert (epochs / "4" / "weights").read_bytes() == b"again"


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    folder = EdgeFolder(tmp_path)
    folder.write_checkpoint("job", state_of(3), 0)
    (tensors,) = folder.root.rglob("*.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match="bytes"):
        folder.read_checkpoint("job", 3)


def test_what_the_rows_of_a_job_are_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder, rows = EdgeFolder(tmp_path), {"a": SiteRows("0" * 64, 7), "b": SiteRows("1" * 64, 9)}
    assert folder.read_rows("a/b") == {}
    folder.write_rows("a/b", rows)
    assert folder.read_rows("a/b") == rows


def test_an_outcome_counts_for_the_steps_that_its_slot_began_after(tmp_path: Path) -> None:
    folder, outcome = EdgeFolder(tmp_path), outcome_of(make_request())
    folder.job("job").mkdir(parents=True)
    folder.write_outcome("job", 9, outcome)
    assert outcome.chunks == (1, 2, 9)
    assert folder.read_outcome("job", 9, 4) == outcome
    assert folder.read_outcome("job", 9, 5) is None
    assert folder.read_outcome("job", 8, 4) is None
