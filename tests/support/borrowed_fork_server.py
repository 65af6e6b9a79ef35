"""The tests' fork server, in processes that tests start: see `one_fork_server`.

Nothing of auctune is imported before it is needed: every interpreter begins with this.
"""

import os
import runpy
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

_RAY_WORKER = "ray/_private/workers/default_worker.py"


def borrow(place: str) -> None:
    """Have this process use a fork server that another one has started."""
    from multiprocessing import forkserver, resource_tracker

    address, _, key = place.rpartition(":")
    server: Any = forkserver._forkserver
    server._forkserver_address = address
    server._forkserver_authkey = bytes.fromhex(key) or None
    # The server does not depend on this process, which has no resources to track.
    server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
    tracker: Any = resource_tracker._resource_tracker
    tracker._fd = os.open(os.devnull, os.O_WRONLY)
    server.ensure_running = forkserver.ensure_running = lambda: None


def is_ray_worker() -> bool:
    return len(sys.orig_argv) > 1 and sys.orig_argv[1].endswith(_RAY_WORKER)


def fork_ray_worker() -> NoReturn:
    """Have a forked process be the worker of Ray that this one was started as; end with it.

    It has torch and transformers already, which take ten seconds of a core to import.
    """
    from multiprocessing import get_context

    from setproctitle import setproctitle

    context = get_context("forkserver")
    process = context.Process(
        target=_be_ray_worker, args=(sys.orig_argv[1:], dict(os.environ), str(Path.cwd()))
    )
    process.start()
    setproctitle(f"worker of Ray, forked as {process.pid}")
    process.join()
    os._exit(process.exitcode or 0)


def _be_ray_worker(argv: list[str], environ: dict[str, str], cwd: str) -> None:
    import multiprocessing.process

    from setproctitle import getproctitle, setproctitle

    # Ray may end the group of a worker, and that of the fork server is the tests' own.
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(cwd)
    sys.argv = argv
    parent = multiprocessing.process.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    import ray

    # Its own looks for the title of the process where the fork server no longer has it.
    raylet: Any = ray._raylet
    raylet.getproctitle, raylet.setproctitle = getproctitle, setproctitle
    runpy.run_path(argv[0], run_name="__main__")


def _end_with(sentinel: int) -> None:
    """End this process as soon as the one that Ray knows has been killed."""
    import signal
    from multiprocessing.connection import wait

    wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)
