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
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

_READY = "database system is ready to accept connections"
_USER = "tester"


class PostgresServer:
    """A server in `folder`, which is there already; runs as `owner` has it."""

    def __init__(self, programs: Path, folder: Path, owner: dict[str, Any]) -> None:
        self._programs, self._folder, self._owner = programs, folder, owner
        self._numbers = count()
        self._process: subprocess.Popen[str] | None = None

    def initialize(self) -> None:
        """Make what a server needs in its folder."""
        setting = ["--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={_USER}"]
        subprocess.run(
            [self._programs / "initdb", "-D", self._folder / "data", *setting],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._owner,
        )

    def start(self) -> None:
        """Run it; returns when it answers."""
        options = {"listen_addresses": "", "unix_socket_directories": self._folder, "fsync": "on"}
        self._process = process = subprocess.Popen(
            [
                self._programs / "postgres",
                "-D",
                self._folder / "data",
                *(f"--{name}={value}" for name, value in options.items()),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env={**os.environ, "LC_ALL": "C"},
            **self._owner,
        )
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if _READY in line:
                # What it says later is read too, or it would wait for its reader.
                threading.Thread(target=process.stderr.read, daemon=True).start()
                return
        raise RuntimeError(f"PostgreSQL did not start: {''.join(said)}")

    def crash(self) -> None:
        """End it at once; what is not on its disk by then is lost."""
        process = self._process
        if process is None:
            return
        self._process = None
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=60)
        assert process.stderr is not None
        process.stderr.close()

    def make_database(self) -> str:
        """A new empty database; its URL."""
        name = f"test{next(self._numbers)}"
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self._url(name)

    def clear(self, url: str) -> None:
        """Remove all that is in a database; far cheaper than another one."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")

    def _url(self, name: str) -> str:
        return f"postgresql://{_USER}@/{name}?host={quote(str(self._folder))}"


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
        server = PostgresServer(programs, folder, _other_user(folder))
        server.initialize()
        try:
            server.start()
            yield server
        finally:
            # Nobody needs what it would save in an orderly end.
            server.crash()
    finally:
        shutil.rmtree(folder)


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
