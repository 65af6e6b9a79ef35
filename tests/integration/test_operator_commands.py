"""What an operator types, against a market that is served in the test's own process."""

import json
import re
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from auctune.service.accounts.registry import Role
from auctune.service.storage import EventLog, open_store
from support.old_logs import write_old_log
from support.serving import ROWS, Served, serving
from support.typing_as import Run, typing_as

pytest_plugins = ["support.served_market"]


@pytest.fixture
def auctune(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    return typing_as(served.operator, served, monkeypatch, capsys)


@pytest.mark.slow
def test_a_paused_zone_takes_no_bids_until_it_is_resumed(served: Served, auctune: Run) -> None:
    code, out, _ = auctune("zones", "list")
    assert (code, out.count(" yes")) == (0, 1)
    code, out, _ = auctune("zones", "pause", "default")
    assert (code, "no, paused" in out) == (0, True)
    file = served.upload()
    own = ("--api-key", served.users["ada"])
    terms = ("--bid", "9", "--deadline", "+20m", *own)
    code, out, lines = auctune("submit", file, *terms)
    assert (code, out, len(lines)) == (1, "", 1)
    assert "zone default takes no bids now" in lines[0]
    code, _, lines = auctune("zones", "resume", "default", *own)
    assert (code, lines) == (1, ["auctune: needs an operator's key"])
    assert auctune("zones", "resume", "default")[0] == 0
    assert auctune("submit", file, *terms)[0] == 0
    code, _, lines = auctune("zones", "pause", "mars")
    assert (code, lines) == (1, ["auctune: there is no zone 'mars'"])


def test_a_drained_node_is_off_the_market_until_it_is_returned(auctune: Run) -> None:
    code, out, _ = auctune("nodes", "drain", "default-1")
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines() if "default-" in line] == [
        "up",
        "drained",
    ]
    assert "default-1 (drained)" in auctune("prices")[1]
    assert json.loads(auctune("nodes", "list", "--json")[1])[1]["state"] == "drained"
    code, out, _ = auctune("nodes", "return", "default-1", "--zone", "default")
    assert (code, "drained" in out) == (0, False)
    code, _, lines = auctune("nodes", "drain", "default-9")
    assert code == 2
    assert lines[0].startswith(
        "auctune: node_id: 'default-9' is unknown; expected one of default-0"
    )


def test_erasing_is_asked_for_twice_and_waits_for_open_jobs(served: Served, auctune: Run) -> None:
    client, file = served.client(served.key("gone")), served.upload(served.users["gone"])
    job = served.bid(client, file).id
    code, _, lines = auctune("users", "erase", "gone")
    assert (code, len(lines)) == (2, 1)
    assert "--yes" in lines[0]
    code, _, lines = auctune("users", "erase", "gone", "--yes")
    assert (code, len(lines)) == (1, 1)
    assert "this user has open jobs" in lines[0]
    client.fine_tuning.jobs.cancel(job)
    assert auctune("users", "erase", "gone", "--yes")[:2] == (
        0,
        "gone: erased 1 files, 1 jobs, 0 webhooks, 1 keys\n",
    )
    code, _, lines = auctune("jobs", "--api-key", served.users["gone"])
    assert (code, "no valid API key" in lines[0]) == (1, True)
    assert auctune("users", "erase", "nobody", "--yes")[0] == 1


@pytest.mark.slow
def test_the_last_operator_is_not_locked_out(served: Served, auctune: Run) -> None:
    (key,) = [
        key["id"]
        for key in json.loads(auctune("keys", "list", "--json")[1])
        if key["role"] == "operator" and key["revoked_at"] is None
    ]
    for command in (("keys", "revoke", key), ("users", "erase", "operator", "--yes")):
        code, _, lines = auctune(*command)
        assert (code, len(lines)) == (1, 1)
        assert "the last operator key" in lines[0]
    assert auctune("keys", "add", "operator", "--role", "operator")[0] == 0
    assert auctune("keys", "revoke", key)[0] == 0
    assert auctune("jobs")[0] == 1
    served.operator = served.key("operator", Role.OPERATOR)


def test_a_bid_that_came_too_late_is_told_by_when_it_could_be_done(
    served: Served, auctune: Run
) -> None:
    own = ("--api-key", served.key("hasty"))
    file = served.upload(served.users["hasty"])
    terms = ("--bid", "99", "--set", "epochs=300", *own)
    code, out, _ = auctune("submit", file, "--deadline", "+3m", *terms)
    assert code == 3
    found = re.search(r"earliest possible deadline: ([\d-]+ [\d:]+)$", out.strip())
    assert found is not None
    moment = datetime.fromisoformat(found[1]).astimezone()
    assert auctune("submit", file, "--deadline", moment.isoformat(), *terms)[0] == 0


def test_a_quote_is_a_table_and_its_last_line_a_command(
    served: Served, auctune: Run, tmp_path: Path
) -> None:
    own = ("--api-key", served.key("shopper"))
    file = served.upload(served.users["shopper"])
    code, out, _ = auctune("quote", file, "--set", "rank=4", *own)
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.split()[:1] == ["0"]]
    (price,) = re.findall(r"\d+\.\d{4}", line)
    command = out.splitlines()[-1].split()
    assert command[:3] == ["auctune", "submit", "--quote"]
    accept = (*command[1:-1], "0", *own)
    code, out, _ = auctune(*accept)
    assert (code, f"pays {price} (bid {price})" in out) == (0, True)
    served.clock.pass_slots(30)
    code, out, lines = auctune(*accept)
    assert code == 3
    assert lines[0].startswith("auctune: --quote: the first slot of this line's plan began at")
    assert lines[0].endswith("nothing was charged")
    assert out == "no node could finish the job in time, at any price\n"


def test_a_bid_waits_for_its_data_to_be_looked_at(served: Served, auctune: Run) -> None:
    file, own = served.upload(), ("--api-key", served.users["ada"])
    # Of this length nothing is known yet.
    terms = (file, "--set", "max_length=33", "--deadline", "+20m", *own)
    code, out, lines = auctune("submit", *terms, "--bid", "0")
    assert (code, " rejected: the bid is not above the price" in out) == (3, True)
    assert [line.partition(": ")[2] for line in lines] == ["checking the data ..."]
    code, out, lines = auctune("submit", *terms, "--bid", "9")
    assert (code, " admitted: pays " in out, lines) == (0, True, [])


def test_a_backup_taken_while_it_serves_is_restored_and_goes_on(
    served: Served, auctune: Run, tmp_path: Path
) -> None:
    file = served.upload()
    job = served.bid(served.client(), file).id
    copy, new = tmp_path / "copy.db", tmp_path / "new"
    assert auctune("db", "backup", copy, "--data", served.folder)[0] == 0
    shutil.copytree(served.folder / "files", new / "files")
    lost = served.bid(served.client(), served.upload()).id
    code, _, lines = auctune("db", "backup", copy, "--data", served.folder)
    assert (code, "already exists" in lines[0]) == (2, True)
    code, _, lines = auctune("db", "restore", copy, "--data", served.folder)
    assert (code, "already exists" in lines[0]) == (2, True)

    assert auctune("db", "restore", copy, "--data", new)[0] == 0
    assert auctune("replay", "--data", new)[0] == 0
    with serving(new, clock=served.clock) as again:
        again.users["ada"] = served.users["ada"]
        client = again.client()
        ids = {one.id for one in client.fine_tuning.jobs.list(limit=100)}
        assert client.files.content(file).text == ROWS
    assert job in ids
    assert lost not in ids


def test_a_backup_of_an_earlier_release_is_upgraded_as_it_is_restored(
    auctune: Run, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    write_old_log(f"sqlite:///{copy}", 11)
    code, out, _ = auctune("db", "restore", copy, "--data", tmp_path / "new")
    assert (code, "restored" in out) == (0, True)
    with open_store(tmp_path / "new") as store:
        assert [row.seq for row in EventLog(store.reader).read_zone("north")] == [1, 2]


def test_postgresql_has_tools_of_its_own(auctune: Run, tmp_path: Path) -> None:
    config = tmp_path / "auctune.toml"
    config.write_text('database = "postgresql://market@db.example/auctune"\n')
    code, _, lines = auctune("db", "backup", tmp_path / "copy", "--config", config)
    assert (code, len(lines), "pg_dump" in lines[0]) == (2, 1, True)
