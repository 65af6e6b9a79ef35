"""Kernels that a service has compiled in child processes before it opens."""

import subprocess
import sys
from pathlib import Path

import pytest

from auctune.service.config.auction import AuctionConfig
from auctune.service.zones.auction.startup import KernelCompilation

pytestmark = pytest.mark.slow

_DECIDE_AND_COUNT = """
from numba.core import event
compiled = event.RecordingListener()
event.register("numba:compile", compiled)
from auctune.service.zones.auction.startup import synthetic_cluster, warm_up
warm_up("pdftsp", {}, synthetic_cluster(1), lambda _: None)
print(len(compiled.buffer))
"""


def test_whoever_comes_after_the_compilers_has_nothing_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    told: list[float] = []
    with KernelCompilation([AuctionConfig()]) as kernels:
        kernels.wait(lambda what, share: told.append(share))
    assert told[-1] == 1.0
    done = subprocess.run(
        [sys.executable, "-c", _DECIDE_AND_COUNT], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"
    with KernelCompilation([AuctionConfig()]) as again:
        again.wait(lambda what, share: told.append(-1.0))
    assert told[-1] == 1.0
