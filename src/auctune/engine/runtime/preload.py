"""Preloaded by the fork server: the libraries that workers train with.

torch and transformers take three seconds of a core to import, and 400 MB, in each process anew. A
forked worker starts in milliseconds and shares that memory with its siblings. Forking is safe: the
fork server has one thread, and has not initialized a device.
"""

import errno
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
from multiprocessing import reduction

from setproctitle import getproctitle

from auctune.engine.runtime.local import PRELOAD

_MODULES = (
    # First, as it silences a warning of PEFT's import.
    "auctune.train",
    "torch",
    "transformers",
    "transformers.models.auto.modeling_auto",
    "transformers.models.gpt2.modeling_gpt2",
    "peft",
    "auctune.train.trainer",
    "auctune.train.profile",
    "auctune.train.tiny",
)

# Ctrl-C in a terminal is for the process whose fork server this is; later the library ignores it.
_on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
# Locates the title in memory, which must precede any change of the environment.
getproctitle()
for _module in _MODULES:
    importlib.import_module(_module)
_loader, _argument = json.loads(os.environ.pop(PRELOAD, '["", null]'))
if _loader:
    importlib.import_module(_loader).preload(_argument)
signal.signal(signal.SIGINT, _on_interrupt)
assert threading.active_count() == 1
# A forked process could not use a GPU that its parent has initialized.
assert not sys.modules["torch"].cuda.is_initialized()

_receive_descriptors = reduction.recvfds


def _receive_or_abort(sock: socket.socket, size: int) -> list[int]:
    """Receive a request; one whose client was killed before it sent it ends alone.

    The standard library's fork server would end with it, and with it what others ask for later.
    """
    try:
        return _receive_descriptors(sock, size)
    except EOFError:
        raise ConnectionAbortedError(errno.ECONNABORTED, "the client has ended") from None


reduction.recvfds = _receive_or_abort
# These objects stay: garbage collections of workers need not visit them, and so copy their pages.
gc.collect()
gc.freeze()
