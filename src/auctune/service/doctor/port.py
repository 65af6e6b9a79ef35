"""The port: free, or held, and by whom."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from auctune.run.lock import NODES_LOCK
from auctune.service.doctor.data_folder import lock_holder
from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation
from auctune.service.doctor.settings import unread

_ANSWER_SECONDS = 3.0
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_MEND = "port in auctune.toml, or auctune serve --port PORT"


def look(at: Installation) -> Iterator[Finding]:
    """Whether a service could listen there, or does."""
    if at.file is None:
        yield unread("port")
        return
    host, port = at.file.host, at.file.port
    yield ok("port", "0: any that is free") if port == 0 else _tried(host, port, at)


def _tried(host: str, port: int, at: Installation) -> Finding:
    try:
        socket.create_server((host, port), reuse_port=False).close()
    except OSError as error:
        # The address is named already.
        return _refused(host, port, at, str(error.strerror).partition(" (")[0])
    noted = _noted(at.url_file)
    if _is_at(noted, port):
        mend = "auctune serve: started again, it goes on where it was"
        return warn("port", f"the data folder notes a service at {noted} that is gone", mend)
    return ok("port", f"{host}:{port} is free")


def _refused(host: str, port: int, at: Installation, reason: str) -> Finding:
    place, holder = f"{host}:{port}", _holder(port)
    if not answers_as_auctune(f"http://{place}"):
        if holder.startswith(f"process {lock_holder(at.data / NODES_LOCK)},"):
            said = f"{place} is held by the service of this data folder, which is opening"
            return warn("port", said, "wait until it is open")
        said = f"{place} cannot be listened at ({reason}; {holder})"
        return wrong("port", said, _MEND)
    # A service that was opening notes where it is before it answers.
    noted = _noted(at.url_file)
    if _is_at(noted, port):
        return ok("port", f"held by the service of this data folder, at {noted}")
    said = f"{place} is held by an auctune of another data folder ({holder})"
    return wrong("port", said, f"its --data, or {_MEND}")


def _noted(url_file: Path) -> str | None:
    """The URL that a service has noted, which it does while it runs."""
    with suppress(OSError, UnicodeDecodeError):
        return url_file.read_text().strip() or None
    return None


def _is_at(url: str | None, port: int) -> bool:
    return url is not None and url.endswith(f":{port}")


def answers_as_auctune(url: str) -> bool:
    """Whether what listens there says of its health what auctune says."""
    import httpx2

    try:
        # A proxy's answer says nothing of this machine.
        answer = httpx2.get(f"{url}/health", timeout=_ANSWER_SECONDS, trust_env=False)
        return answer.status_code == 200 and "status" in answer.json()
    except (httpx2.HTTPError, ValueError, AttributeError):
        return False


def _holder(port: int) -> str:
    """Who listens at a port, as far as this user may see it."""
    inodes = set(_listening(port))
    if not inodes:
        return "no process listens there"
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted & set(_open_files(process)):
                return f"process {process.name}, {(process / 'comm').read_text().strip()}"
    return "a process of another user"


def _open_files(process: Path) -> Iterator[str]:
    for handle in (process / "fd").iterdir():
        # It may be closed meanwhile.
        with suppress(FileNotFoundError):
            yield str(handle.readlink())


def _listening(port: int) -> Iterator[str]:
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                    yield words[9]
