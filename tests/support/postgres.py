"""A private PostgreSQL server: a folder and a process of its own, gone afterwards.

It syncs to disk as servers do, listens on a socket in its folder only, and trusts who can reach it.
PostgreSQL refuses to run as root; root runs it as another user.
"""

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

_READY = "database system is ready to accept connections"
_USER = "tester"


@dataclass
class PostgresServer:
    """A running server.

    Attributes:
        process: the server; whoever ends it may, it is cleared away all the same.
    """

    process: subprocess.Popen[str]
    folder: Path
    _numbers: Iterator[int] = field(default_factory=count)

    def make_database(self) -> str:
        """A new empty database; its URL."""
        name = f"test{next(self._numbers)}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self._url(name)

    def stop(self) -> None:
        """End it as an operator in a hurry would: sessions are cut, nothing is lost."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=60)

    def _url(self, name: str) -> str:
        return f"postgresql://{_USER}@/{name}?host={quote(str(self.folder))}"


def find_programs() -> Path | None:
    """The folder of a PostgreSQL server's programs; the newest if there are several."""
    on_path = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    folders = on_path + sorted(installed, key=_release, reverse=True)
    return next((folder for folder in folders if (folder / "postgres").is_file()), None)


@contextmanager
def private_server(programs: Path) -> Iterator[PostgresServer]:
    """A server from `programs` with nothing in it."""
    # Not below pytest's folder: that is closed to the user it may have to run as.
    folder = Path(tempfile.mkdtemp(prefix="auctune-pg-"))
    try:
        owner = _other_user(folder)
        data = folder / "data"
        setting = ["--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={_USER}"]
        subprocess.run(
            [programs / "initdb", "-D", data, *setting],
            check=True,
            capture_output=True,
            cwd=folder,
            **owner,
        )
        server = PostgresServer(_start(programs, folder, owner), folder)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.stop()
            assert server.process.stderr is not None
            server.process.stderr.close()
    finally:
        shutil.rmtree(folder)


def _start(programs: Path, folder: Path, owner: dict[str, Any]) -> subprocess.Popen[str]:
    options = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "on"}
    process = subprocess.Popen(
        [
            programs / "postgres",
            "-D",
            folder / "data",
            *(f"--{name}={value}" for name, value in options.items()),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        **owner,
    )
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if _READY in line:
            # What it says later is read too, or it would wait for its reader.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process
    raise RuntimeError(f"PostgreSQL did not start: {''.join(said)}")


def _other_user(folder: Path) -> dict[str, Any]:
    """How to run as another user than root, who is then given the folder; else nothing."""
    if os.geteuid() != 0:
        return {}
    names = [entry.pw_name for entry in pwd.getpwall()]
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    shutil.chown(folder, entry.pw_uid, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _release(programs: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", programs.parent.name))
