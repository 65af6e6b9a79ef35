"""The service's log."""

import logging.config
from pathlib import Path

import orjson
import pytest
import structlog
import uvicorn

from auctune.service.logs import KEPT, NAME, logs_in


def lines(folder: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in (folder / NAME).read_bytes().splitlines()]


def test_a_line_is_one_json_object_without_secrets(tmp_path: Path) -> None:
    with logs_in(tmp_path / "logs"):
        structlog.get_logger().info("asked", key="sk-abc", ms=1.5, path=Path("x\ny"))
    (found,) = lines(tmp_path / "logs")
    assert found.pop("timestamp")
    expected = {"event": "asked", "level": "info", "key": "***", "ms": 1.5, "path": "x\ny"}
    assert found == expected


def test_what_somebody_should_see_is_on_the_terminal_too_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with logs_in(tmp_path):
        structlog.get_logger().info("a request", ms=3)
        structlog.get_logger().warning("a node is slow", node="alpha", token="t")
    assert capfd.readouterr() == ("", "warning: a node is slow node=alpha token=***\n")
    assert [line["event"] for line in lines(tmp_path)] == ["a request", "a node is slow"]


def test_an_exception_is_on_record_whole(tmp_path: Path) -> None:
    with logs_in(tmp_path):
        try:
            raise ValueError("odd")
        except ValueError:
            structlog.get_logger().exception("it failed")
    assert "ValueError: odd" in str(lines(tmp_path)[0]["exception"])


def test_it_does_not_grow_without_end_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    for start in (0, 500):
        with logs_in(tmp_path, longest=2_000):
            for number in range(start, start + 500):
                structlog.get_logger().info("line", number=number)
    files = sorted(tmp_path.iterdir())
    assert len(files) == KEPT
    assert sum(file.stat().st_size for file in files) < KEPT * 2_200
    assert lines(tmp_path)[-1]["number"] == 999


def test_it_goes_on_when_a_server_sets_logging_up_in_its_own_way(tmp_path: Path) -> None:
    with logs_in(tmp_path):
        structlog.get_logger().info("before")
        # Closes all handlers of the logging module.
        logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG)
        structlog.get_logger().info("after")
    assert [line["event"] for line in lines(tmp_path)] == ["before", "after"]


def test_a_line_that_has_no_room_is_lost_and_nobody_fails_for_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / NAME).symlink_to("/dev/full")
    with logs_in(tmp_path):
        for _ in range(3):
            structlog.get_logger().error("the database failed")
    assert capfd.readouterr() == ("", "error: the database failed\n" * 3)


def test_a_file_that_could_not_be_turned_over_is_taken_up_again(tmp_path: Path) -> None:
    in_the_way = tmp_path / f"{NAME}.{KEPT - 1}"
    in_the_way.mkdir()
    with logs_in(tmp_path, longest=200):
        for number in range(50):
            structlog.get_logger().info("line", number=number)
        in_the_way.rmdir()
        structlog.get_logger().info("after")
    assert lines(tmp_path)[-1]["event"] == "after"
