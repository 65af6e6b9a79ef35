"""The example's vendor as a process of its own, to be stopped, killed and started again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Self

from auctune.service.private_files import write_private
from support.pages import ROOT

# Of a machine so busy that Python takes minutes to import its packages.
START_SECONDS = 300.0


class VendorProcess:
    """Runs `examples/vendor/app.py` inside a `with` block.

    Args:
        folder: of its orders; the file with the token lies beside it.
        token: shared with the service.
        arguments: for the command line.
    """

    def __init__(self, folder: Path, token: str, *arguments: str) -> None:
        self.folder = folder
        self._arguments = arguments
        self._token_file = folder.with_name(f"{folder.name}.token")
        write_private(self._token_file, token + "\n")
        self._port = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        """Returns once the port is open; the same one each time."""
        command = [sys.executable, str(ROOT / "examples" / "vendor" / "app.py")]
        command += ["--port", str(self._port), "--folder", str(self.folder)]
        command += ["--token-file", str(self._token_file), *self._arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        # One that says nothing is ended, so that the line to wait for is an empty one.
        watch = Timer(START_SECONDS, process.kill)
        watch.start()
        line = process.stdout.readline()
        watch.cancel()
        assert line.startswith("listening on port "), f"{line!r}, exit code {process.poll()}"
        self._port = int(line.split()[-1])
        return process

    @property
    def url(self) -> str:
        """Where its routes begin."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def is_there(self) -> bool:
        """Whether it has a process, be it a frozen one."""
        return self._process.poll() is None

    def freeze(self) -> None:
        """It goes on existing, and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def restart(self) -> None:
        self._process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()
