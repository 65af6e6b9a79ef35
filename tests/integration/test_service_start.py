"""Kernels that a service has compiled in child processes before it opens."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_COMPILE = """
from auctune.service.config.auction import AuctionConfig
from auctune.service.zones.auction.startup import KernelCompilation
shares = []
with KernelCompilation([AuctionConfig()]) as kernels:
    kernels.wait(lambda what, share: shares.append(share))
print(shares[-1:])
"""
_DECIDE_AND_COUNT = """
from numba.core import event
compiled = event.RecordingListener()
event.register("numba:compile", compiled)
from auctune.service.zones.auction.startup import synthetic_cluster, warm_up
warm_up("pdftsp", {}, synthetic_cluster(1), lambda _: None)
print(len(compiled.buffer))
"""


def test_whoever_comes_after_the_compilers_has_nothing_to_compile(tmp_path: Path) -> None:
    def printed_by(script: str) -> str:
        # Numba reads the variable once, when it is imported.
        with_cache = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=with_cache)
        return done.stdout

    assert printed_by(_COMPILE) == "[1.0]\n"
    assert printed_by(_DECIDE_AND_COUNT) == "0\n"
    assert printed_by(_COMPILE) == "[]\n"
