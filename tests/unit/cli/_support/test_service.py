"""Commands for a service, where there is none: one line each, and nothing done."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from auctune.cli._support.job_text import format_duration, format_time
from auctune.service.config.models import read_config
from auctune.service.storage.engine import FILE_NAME
from support.old_logs import write_old_log

Run = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("AUCTUNE_URL", "AUCTUNE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


NO_SERVICE = "auctune: --url: is missing, and no service runs in auctune-data; expected the URL"
REMOTE = ("--url", "http://market.example")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("jobs",), NO_SERVICE),
        (("watch",), NO_SERVICE),
        (("cancel", "ftjob-a"), NO_SERVICE),
        (("quote", "rows.jsonl"), NO_SERVICE),
        (("keys", "list"), NO_SERVICE),
        (("jobs", *REMOTE), "auctune: --api-key: is missing; expected an API key"),
        (("submit",), "auctune: TRAINING_FILE: is missing; expected a data set, or --site"),
        (("submit", "rows.jsonl"), NO_SERVICE),
        (
            ("submit", "a", "--quote", "quote-a"),
            "auctune: TRAINING_FILE: cannot be combined with --quote",
        ),
        (("submit", "--line", "1"), "auctune: --line: needs --quote"),
        (
            ("submit", "a", "--quote", "quote-a", "--line", "0"),
            "auctune: TRAINING_FILE: cannot be combined with --quote; expected a job as it",
        ),
        (
            ("submit", "a", "--market", "m.toml"),
            "auctune: TRAINING_FILE: cannot be combined with --mar",
        ),
        (("submit", "--market", "m.toml"), "auctune: m.toml: cannot be read (No such file"),
        (("users", "add", "ann", "--budget", "1/y"), "auctune: --budget: '1/y'; expected an amou"),
        (("serve", "--slot-seconds", "0.5"), "auctune: --slot-seconds: 0.5; expected 1 to 86400"),
        (("serve", "--config", "none.toml"), "auctune: none.toml: cannot be read (No such file"),
        (("db", "upgrade"), "auctune: auctune-data: has no auctune.db; expected the data folder"),
        (("users",), "auctune: auctune users: a command is missing; expected one of list, add"),
        (("nodes", "drain", "a"), NO_SERVICE),
        (("db", "backup", "copy"), "auctune: auctune-data/auctune.db: does not exist"),
        (("db", "restore", "copy"), "auctune: "),
        (("try", "ftjob-a", "x", "--kind", "y"), "auctune: --kind: 'y'; expected one of chat, co"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing(
    tmp_path: Path, auctune: Run, arguments: tuple[str, ...], message: str
) -> None:
    code, out, lines = auctune(*arguments)
    assert (code, out, len(lines)) == (2, "", 1)
    assert lines[0].startswith(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "prices"), [((), ["prices begin at 0.0000"]), (("--config", "auctune.toml"), [])]
)
def test_a_service_without_settings_prints_the_prices_that_it_begins_with(
    options: tuple[str, ...],
    prices: list[str],
    tmp_path: Path,
    auctune: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def serve(settings: object, place: object, report: object, ready: Callable[..., None]) -> None:
        ready("http://127.0.0.1:8420", None)

    monkeypatch.setattr("auctune.service.server.serve", serve)
    (tmp_path / "auctune.toml").write_text("")
    code, out, _ = auctune("serve", *options)
    assert code == 0
    assert [line.partition(";")[0] for line in out.splitlines() if "prices" in line] == prices


def test_an_upgrade_names_the_log_that_this_release_cannot_serve(
    tmp_path: Path, auctune: Run
) -> None:
    data = tmp_path / "auctune-data"
    data.mkdir()
    write_old_log(f"sqlite:///{data / FILE_NAME}", 1)
    code, out, lines = auctune("db", "upgrade")
    assert (code, out) == (2, "")
    assert lines[0].startswith("auctune: zone north: log: is of version 1; expected version")


def test_nobody_at_an_address_is_told_by_it(monkeypatch: pytest.MonkeyPatch, auctune: Run) -> None:
    # Nobody listens at the port for discarding.
    monkeypatch.setenv("AUCTUNE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AUCTUNE_API_KEY", "sk-a")
    monkeypatch.setattr("auctune.client.transport._MAX_ATTEMPTS", 1)
    code, _, lines = auctune("jobs")
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith("auctune: http://127.0.0.1:9 does not answer")


def test_settings_are_written_once_and_can_be_read(tmp_path: Path, auctune: Run) -> None:
    code, out, _ = auctune("init")
    assert code == 0
    assert "auctune serve --config auctune.toml" in out
    assert read_config(tmp_path / "auctune.toml").zones
    before = (tmp_path / "auctune.toml").read_bytes()
    code, _, lines = auctune("init")
    assert (code, lines) == (
        2,
        ["auctune: auctune.toml: already exists; expected the name of a new file"],
    )
    assert (tmp_path / "auctune.toml").read_bytes() == before


def test_moments_and_spans_are_shown_as_people_say_them() -> None:
    assert format_time(None) == "-"
    past = datetime(2001, 5, 4, 12, tzinfo=UTC).timestamp()
    assert format_time(past).startswith("2001-05-0")
    assert [format_duration(s) for s in (90, 600, 7200, 86_400, 30 * 86_400)] == [
        "90 s",
        "10 min",
        "2.0 h",
        "24.0 h",
        "30.0 days",
    ]
