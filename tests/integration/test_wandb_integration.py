"""A job with an integration is logged by W&B's own package, to its offline files."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auctune.service.config.wandb import WandbConfig
from auctune.service.integrations import wandb_logger
from auctune.service.storage.queries import read_values
from support.market_runs import poll
from support.serving import Served, make_file, serving

# What `Served.train` records for 40 and 100 rows, by step.
LOSSES = {5: 2.5 / 41, 12: 2.5 / 101}
EXPECTED = {
    step: {"train_loss": loss, "train_mean_token_accuracy": 0.5} for step, loss in LOSSES.items()
}


@pytest.fixture(autouse=True)
def _package(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setattr(wandb_logger, "_PAUSE_SECONDS", 0.01)


def submit(served: Served) -> str:
    wandb = {"project": "market", "name": "run-of-ada", "entity": "team", "tags": ["mine"]}
    made = served.client().fine_tuning.jobs.create(
        model="tiny",
        training_file=served.upload(),
        integrations=[{"type": "wandb", "wandb": wandb}],
        extra_body={"market": {"bid": "100", "deadline": "+20m"}},
    )
    return str(made.id)


def wait_until_logged(served: Served) -> None:
    reader = served.service.store.reader
    poll(lambda: not read_values(reader, "wandb.open:"))


def read_records(folder: Path, job: str) -> Iterator[Any]:
    """The records of a job's only offline file: protobuf in blocks, as in logs of LevelDB."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob(f"wandb/{job}/wandb/offline-run-*/run-{job}.wandb")
    content, position, parts = file.read_bytes(), 7, b""
    while position < len(content):
        room = 32_768 - position % 32_768
        if room < 7:
            position += room
            continue
        _checksum, length, kind = struct.unpack_from("<IHB", content, position)
        position += 7 + length
        parts += content[position - length : position]
        # Complete, or the last part.
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def logged(records: list[Any]) -> dict[int, dict[str, float]]:
    """Metrics by step; W&B's own begin with an underscore."""
    found = {}
    for record in records:
        if record.WhichOneof("record_type") == "history":
            names = [
                (item.key or item.nested_key[0], item.value_json) for item in record.history.item
            ]
            metrics = {name: json.loads(value) for name, value in names if name[0] != "_"}
            found[int(metrics.pop("step"))] = metrics
    return found


def exit_code(records: list[Any]) -> int:
    (code,) = (one.exit.exit_code for one in records if one.WhichOneof("record_type") == "exit")
    return int(code)


def test_the_offline_file_of_a_job_has_all_steps_though_the_service_was_restarted(
    tmp_path: Path,
) -> None:
    config = make_file().model_copy(update={"wandb": WandbConfig(offline=True)})
    with serving(tmp_path, config) as served:
        job = submit(served)
        served.train(job, 40)
        poll(lambda: list(tmp_path.glob(f"wandb/{job}/wandb/offline-run-*/*.wandb")) != [])
    with serving(tmp_path, config) as served:
        served.train(job, 100)
        served.finish(job, "ada")
        wait_until_logged(served)
    records = list(read_records(tmp_path, job))
    assert logged(records) == EXPECTED
    assert exit_code(records) == 0
    (run,) = (one.run for one in records if one.WhichOneof("record_type") == "run")
    assert (run.project, run.entity, run.display_name) == ("market", "team", "run-of-ada")
    assert list(run.tags) == ["mine", "auctune/finetune", "auctune/tiny", f"auctune/{job}"]
    config_keys = {one.key: json.loads(one.value_json) for one in run.config.update}
    assert (config_keys["model"], config_keys["epochs"]) == ("tiny", 3)
    # Nothing about the machine.
    assert run.host == "auctune"
    (file,) = tmp_path.glob(f"wandb/{job}/wandb/offline-run-*/run-{job}.wandb")
    for word in (sys.prefix, str(tmp_path)):
        assert word.encode() not in file.read_bytes()


def test_jobs_are_logged_side_by_side_and_those_that_fail_are_failed_runs(tmp_path: Path) -> None:
    config = make_file().model_copy(update={"wandb": WandbConfig(offline=True)})
    with serving(tmp_path, config) as served:
        jobs = [submit(served) for _ in range(4)]
        for rows in (40, 100):
            for job in jobs:
                served.train(job, rows)
        for job in jobs[:2]:
            served.finish(job, "ada")
        for job in jobs[2:]:
            served.ask(lambda zone, job=job: zone.fail(job, "training_failed", "", None))  # type: ignore[misc]
        wait_until_logged(served)
    records = [list(read_records(tmp_path, job)) for job in jobs]
    assert [logged(one) for one in records] == [EXPECTED] * 4
    assert [exit_code(one) for one in records] == [0, 0, 1, 1]
