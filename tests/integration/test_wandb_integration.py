"""A job with an integration is logged by W&B's own package, to its offline files or a server."""

import base64
import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from auctune.service.config.wandb import WandbConfig
from auctune.service.integrations import wandb_logger
from auctune.service.storage.queries import read_values
from support.serving import Served, make_file, serving
from support.waits import poll

pytestmark = pytest.mark.slow

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


def test_runs_are_made_anew_when_the_process_of_the_package_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wandb_logger, "INITIAL_BACKOFF_SECONDS", 0.1)
    config = make_file().model_copy(update={"wandb": WandbConfig(offline=True)})
    with serving(tmp_path, config) as served:
        jobs = [submit(served) for _ in range(2)]
        for job in jobs:
            served.train(job, 40)
        poll(lambda: len(list(tmp_path.glob("wandb/*/wandb/offline-run-*/*.wandb"))) == 2)
        listed = ["pgrep", "--parent", str(served.service.wandb._process.pid), "wandb-core"]
        (core,) = subprocess.run(listed, capture_output=True, check=True).stdout.split()
        os.kill(int(core), signal.SIGKILL)
        for job in jobs:
            served.train(job, 100)
            served.finish(job, "ada")
        wait_until_logged(served)
    for job in jobs:
        records = list(read_records(tmp_path, job))
        assert (logged(records), exit_code(records)) == (EXPECTED, 0)


@contextmanager
def wandb_server(received: list[tuple[str, str, Any]]) -> Iterator[str]:
    """A server of W&B that takes every run: path, user and password, and body of each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
            user = base64.b64decode(credentials).decode() if kind == "Basic" else ""
            value = json.loads(body) if self.command == "POST" else None
            received.append((self.path, user, value))
            content = json.dumps(self._answer(value)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_PUT(self) -> None:
            self.do_POST()

        def _answer(self, value: Any) -> Any:
            if self.path != "/graphql":
                return {}
            variables = value["variables"]
            if "upsertBucket" in value["query"]:
                project = {"name": variables["project"], "entity": {"name": variables["entity"]}}
                run = {"id": "1", "name": variables["name"], "project": project}
                return {"data": {"upsertBucket": {"bucket": run, "inserted": True}}}
            assert "createRunFiles" in value["query"]
            files = [
                {"name": name, "uploadUrl": f"{url}/files/{name}"} for name in variables["files"]
            ]
            return {"data": {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}}

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # Connections are kept by a process that is killed at the end.
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_run_is_sent_to_the_operators_server_with_the_operators_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package checks the length.
    key = "0123456789" * 4
    monkeypatch.setenv("AUCTUNE_WANDB_KEY", key)
    received: list[tuple[str, str, Any]] = []
    with wandb_server(received) as url:
        wandb = WandbConfig(key_variable="AUCTUNE_WANDB_KEY", base_url=url)
        with serving(tmp_path, make_file().model_copy(update={"wandb": wandb})) as served:
            job = submit(served)
            for rows in (40, 100):
                served.train(job, rows)
            served.finish(job, "ada")
            wait_until_logged(served)
    streams = [one for one in received if one[0] == f"/files/team/market/{job}/file_stream"]
    assert {user for _, user, _ in streams} == {f"api:{key}"}
    lines = [
        json.loads(line)
        for _, _, body in streams
        for line in body.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
    ]
    found = {line.pop("step"): line for line in lines}
    for step, metrics in EXPECTED.items():
        assert metrics.items() <= found[step].items()
    ((complete, code),) = [(b["complete"], b["exitcode"]) for _, _, b in streams if "exitcode" in b]
    assert (complete, code) == (True, 0)
    # Its files are sent, and deleted.
    assert list((tmp_path / "wandb").iterdir()) == []
