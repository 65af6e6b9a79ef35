"""The service's log."""

import logging.config
import os
from pathlib import Path

import orjson
import pytest
import structlog
import uvicorn
from structlog.testing import capture_logs

from auctune.service.logging import BACKUP_COUNT, FILE_NAME, configure


def lines(folder: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in (folder / FILE_NAME).read_bytes().splitlines()]


def test_a_line_is_one_json_object_without_secrets(tmp_path: Path) -> None:
    with configure(tmp_path / "logs"):
        structlog.get_logger().info("asked", key="sk-abc", ms=1.5, path=Path("x\ny"))
    (found,) = lines(tmp_path / "logs")
    assert found.pop("timestamp")
    expected = {"event": "asked", "level": "info", "key": "***", "ms": 1.5, "path": "x\ny"}
    assert found == expected


def test_warnings_are_echoed_to_the_terminal_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with configure(tmp_path):
        structlog.get_logger().info("a request", ms=3)
        structlog.get_logger().warning("a node is slow", node="alpha", token="t")
    assert capfd.readouterr() == ("", "warning: a node is slow node=alpha token=***\n")
    assert [line["event"] for line in lines(tmp_path)] == ["a request", "a node is slow"]


def test_errors_of_the_server_go_to_the_rotated_file_and_not_their_tracebacks_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with configure(tmp_path):
        try:
            raise RuntimeError("the handler is closed")
        except RuntimeError:
            logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    (line,) = lines(tmp_path)
    assert (line["event"], line["level"]) == ("Exception in ASGI application", "error")
    assert "RuntimeError: the handler is closed" in str(line["exception"])
    assert capfd.readouterr() == ("", "error: Exception in ASGI application\n")


def test_an_exception_is_logged_with_its_traceback(tmp_path: Path) -> None:
    with configure(tmp_path):
        try:
            raise ValueError("odd")
        except ValueError:
            structlog.get_logger().exception("it failed")
    assert "ValueError: odd" in str(lines(tmp_path)[0]["exception"])


def test_the_file_is_rotated_and_continued_after_a_restart(tmp_path: Path) -> None:
    for start in (0, 500):
        with configure(tmp_path, max_bytes=2_000):
            for number in range(start, start + 500):
                structlog.get_logger().info("line", number=number)
    files = sorted(tmp_path.iterdir())
    assert len(files) == BACKUP_COUNT + 1
    assert sum(file.stat().st_size for file in files) < len(files) * 2_200
    assert lines(tmp_path)[-1]["number"] == 999


def test_logging_continues_after_a_server_configures_the_logging_module(tmp_path: Path) -> None:
    with configure(tmp_path):
        structlog.get_logger().info("before")
        # Closes all handlers of the logging module.
        logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG)
        structlog.get_logger().info("after")
    assert [line["event"] for line in lines(tmp_path)] == ["before", "after"]


def test_a_line_that_a_full_disk_has_no_room_for_is_lost_without_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / FILE_NAME).symlink_to("/dev/full")
    with configure(tmp_path):
        for _ in range(3):
            structlog.get_logger().error("the database failed")
    assert capfd.readouterr() == ("", "error: the database failed\n" * 3)


def test_a_file_that_cannot_be_rotated_grows_until_it_can(tmp_path: Path) -> None:
    in_the_way = tmp_path / f"{FILE_NAME}.{BACKUP_COUNT}"
    in_the_way.mkdir()
    with configure(tmp_path, max_bytes=200):
        for number in range(50):
            structlog.get_logger().info("line", number=number)
        assert lines(tmp_path)[-1]["number"] == 49
        in_the_way.rmdir()
        structlog.get_logger().info("after")
    assert [line["event"] for line in lines(tmp_path)] == ["after"]


def test_the_file_and_its_backups_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with configure(tmp_path, max_bytes=200):
            for number in range(10):
                structlog.get_logger().info("line", number=number)
    finally:
        os.umask(before)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_a_logger_that_outlives_the_service_logs_elsewhere_then(tmp_path: Path) -> None:
    log = structlog.get_logger()
    with configure(tmp_path / "logs"):
        log.info("within")
    with capture_logs() as after:
        log.info("after")
    assert [line["event"] for line in lines(tmp_path / "logs")] == ["within"]
    assert after == [{"event": "after", "log_level": "info"}]
