"""Stands for what a fork server preloads: appends a line to a file, after a moment."""

import json
import os
import time
from pathlib import Path

from auctune.engine.runtime.local import PRELOAD

_module, _file = json.loads(os.environ[PRELOAD])
time.sleep(0.2)
with Path(_file).open("a") as _stream:
    _stream.write("loaded\n")
