"""Preloaded by the fork server: the libraries that workers train with.

torch and transformers take three seconds of a core to import, and 400 MB, in each process anew. A
forked worker starts in milliseconds and shares that memory with its siblings. Forking is safe: the
fork server has one thread, and has not initialized a device.
"""

import gc
import importlib
import sys
import threading

from setproctitle import getproctitle

_MODULES = (
    # First, as it silences a warning of PEFT's import.
    "auctune.train",
    "torch",
    "transformers",
    "transformers.models.auto.modeling_auto",
    "transformers.models.gpt2.modeling_gpt2",
    "peft",
    "auctune.run.runtime.messages",
    "auctune.train.trainer",
    "auctune.train.profile",
    "auctune.train.sampling",
    "auctune.train.tiny",
)

# Locates the title in memory, which must precede any change of the environment.
getproctitle()
for _module in _MODULES:
    importlib.import_module(_module)
assert threading.active_count() == 1
# A forked process could not use a GPU that its parent has initialized.
assert not sys.modules["torch"].cuda.is_initialized()
# These objects stay: garbage collections of workers need not visit them, and so copy their pages.
gc.collect()
gc.freeze()
