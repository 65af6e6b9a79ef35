"""Erasure of a user: none of the texts that they gave is left in the database, folder and log."""

import io
import zlib
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from sqlalchemy import select

from auctune.domain import write_snapshot
from auctune.service import erasure, logging
from auctune.service.accounts.registry import Principal, Role
from auctune.service.config.wandb import WandbConfig
from auctune.service.storage import Snapshots, tables
from auctune.service.storage.committer import durable
from auctune.service.zones.core.events import JobNoted, OutOfMemory
from auctune.service.zones.core.job import SLOWER_THAN_SOLD
from auctune.service.zones.core.snapshots import Snapshotter
from support.adapter_archives import pack
from support.serving import ROWS, Served, make_file, make_zone, serving

USER = "leaver"
WORDS = (
    "privatefile",
    "privaterow",
    "privatesuffix",
    "privatename",
    "privatevalue",
    "privateproject",
    "privaterun",
    "privatetag",
    "privatekey",
    "privatetoken",
    "privatehook",
    "privateerror",
    "privatenote",
)


def contents(value: Any) -> Iterator[bytes]:
    """A stored value as it is, and unpacked if it is a snapshot."""
    if isinstance(value, bytes):
        yield value
        try:
            body = zlib.decompress(value[4:])
        except zlib.error:
            return
        with np.load(io.BytesIO(body[body.index(b"PK") :])) as members:
            yield from (members[name].tobytes() for name in members.files)
    else:
        yield str(value).encode()


def found(served: Served) -> set[str]:
    """The words that a search through all tables and all files finds."""
    texts = [path.read_bytes() for path in served.folder.rglob("*") if path.is_file()]
    with served.service.store.reader.connect() as connection:
        for table in tables.metadata.sorted_tables:
            for row in connection.execute(select(table)):
                texts += [text for value in row for text in contents(value)]
    return {word for word in WORDS if any(word.encode() in text for text in texts)}


def snapshot(served: Served) -> None:
    """Take one of the zone as it is now."""
    actor, clock = served.auction().actor, served.auction().clock
    snapshots = Snapshots(served.service.store.reader)
    taken = Snapshotter(actor, clock, snapshots, served.service.committer, interval=0)
    served.run(taken.snapshot_if_due)


def post(served: Served, key: str, body: dict[str, Any], token: str | None = None) -> str:
    headers = {} if token is None else {"Idempotency-Key": token}
    with served.http(key) as http:
        made = http.post("/v1/fine_tuning/jobs", json=body, headers=headers)
        return str(made.raise_for_status().json()["id"])


def cancel(served: Served, key: str, job: str) -> None:
    with served.http(key) as http:
        http.post(f"/v1/fine_tuning/jobs/{job}/cancel").raise_for_status()


def give_texts(served: Served) -> str:
    """Have a user give every kind of text that the service takes, and end all jobs.

    Returns the name that the user's model shall have without these texts.
    """

    async def add() -> str:
        await served.service.put_user(USER, None, None)
        return (await served.service.accounts.add_key(USER, Role.USER, "privatekey"))[1]

    key = served.run(add)
    rows = ROWS + '{"prompt": "privaterow", "completion": "privaterow"}\n'
    file = served.upload(key, rows, "privatefile.jsonl")
    wandb = {"project": "privateproject", "name": "privaterun", "tags": ["privatetag"]}
    body = {
        "model": "tiny",
        "training_file": file,
        "suffix": "privatesuffix",
        "metadata": {"privatename": "privatevalue"},
        "integrations": [{"type": "wandb", "wandb": wandb}],
        "market": {"bid": "100", "deadline": "+20m", "zone": "default"},
    }
    with served.http(key) as http:
        http.post("/v1/webhooks", json={"url": "https://privatehook.example/"}).raise_for_status()
    cancelled, finished, failed = (post(served, key, body, f"privatetoken{n}") for n in range(3))
    for event in (JobNoted(text="privatenote"), OutOfMemory(slot=1, text="privatenote")):
        served.ask(lambda zone, event=event: zone.record(event, cancelled))  # type: ignore[misc]
    snapshot(served)
    served.train(finished, 153)
    (served.folder / "parts").mkdir()
    served.finish(finished, USER, content=pack(served.folder / "parts"))
    with served.http(key) as http:
        model = http.get(f"/v1/fine_tuning/jobs/{finished}").json()["fine_tuned_model"]
    cancel(served, key, post(served, key, {**body, "model": model}))
    who = Principal("key-1", USER, None, Role.USER)
    served.ask(
        lambda zone: zone.charge_tokens(who, f"{model}:ckpt-step-7", (9000, 9000), Decimal(1))
    )
    served.ask(lambda zone: zone.fail(failed, "data_failed", "line 3: 'privateerror'", None))
    cancel(served, key, cancelled)
    assert "privatesuffix" in model
    return str(model.replace("privatesuffix", ""))


def names_of_models(served: Served) -> set[str]:
    """Names of models in the log: of answers, and where jobs started."""
    bodies = [orjson.loads(row.body) for row in served.service.log.read_zone("default")]
    used = {body["model"] for body in bodies if "completion_tokens" in body}
    return used | {body["request"]["start_from"] for body in bodies if "request" in body}


@pytest.mark.slow
def test_no_text_of_an_erased_user_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Several transactions, as with many jobs.
    monkeypatch.setattr(erasure, "_JOBS_PER_BATCH", 1)
    file = make_file([make_zone()]).model_copy(update={"wandb": WandbConfig(offline=True)})
    with logging.configure(tmp_path / "logs"), serving(tmp_path, file) as served:
        model = give_texts(served)
        assert found(served) == set(WORDS)
        paid = served.service.queries.balances([f"user:{USER}"])
        others = {"state": np.frombuffer(b"another's", dtype=np.uint8)}
        write = Snapshots(served.service.store.reader).write_batch(
            "other", 3, 0.0, write_snapshot(others)
        )
        served.run(partial(durable, served.service.committer, write))
        events = len(list(served.service.log.read_zone("default")))
        listed = served.run(lambda: served.service.models.list(USER))
        assert any("privatesuffix" in one.name for one in listed)
        with served.http(served.operator) as http:
            erased = http.delete(f"/v1/users/{USER}/data").json()
        assert (erased["jobs"], erased["keys"], erased["webhooks"]) == (4, 1, 1)
        assert found(served) == set()
        listed = served.run(lambda: served.service.models.list(USER))
        assert not any("privatesuffix" in one.name for one in listed)
        kept = Snapshots(served.service.store.reader).load_latest("other", bytes)
        assert kept is not None
        assert kept.seq == 3
        assert len(list(served.service.log.read_zone("default"))) == events
        served.bid(served.client(), served.upload())
    with serving(tmp_path, file) as served:
        # Folded from the log alone.
        assert found(served) == set()
        assert served.service.queries.balances([f"user:{USER}"]) == paid != {}
        assert names_of_models(served) == {None, model, f"{model}:ckpt-step-7"}


@pytest.mark.parametrize(
    ("event", "erased"),
    [
        ({"text": "privatenote"}, {"text": "erased"}),
        # Charges of the job depend on it.
        ({"text": SLOWER_THAN_SOLD}, None),
        (
            {"event": {"type": "ended", "note": "privatenote"}},
            {"event": {"type": "ended", "note": "erased"}},
        ),
        ({"event": {"type": "ended", "note": ""}}, None),
    ],
)
def test_texts_of_events_are_erased_unless_they_are_the_services_own(
    event: dict[str, Any], erased: dict[str, Any] | None
) -> None:
    found = erasure._event_without_text({}, orjson.dumps(event))
    assert (None if found is None else orjson.loads(found)) == erased
