"""Messages to a service manager, as one receives them."""

import socket
from pathlib import Path

import pytest

from auctune.engine.service_manager import notify_manager


@pytest.mark.parametrize("kind", ["in a folder", "abstract"])
def test_a_manager_receives_one_datagram_of_lines(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name if kind == "in a folder" else f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", name if kind == "in a folder" else f"@{name}")
        notify_manager("READY=1", "STATUS=is open")
        assert manager.recv(4096) == b"READY=1\nSTATUS=is open"


@pytest.mark.parametrize("name", [None, "", "/no/manager/listens/here"])
def test_without_a_manager_nothing_happens(
    name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if name is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", name)
    notify_manager("READY=1")
