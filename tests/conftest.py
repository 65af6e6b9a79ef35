"""Which tests are run, where their kernels are kept, and on how many threads they compute."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from auctune.engine.runtime.ray.local_cluster import set_ray_environment
from support.cpu_seconds import CpuSeconds
from support.kernel_cache import share_kernels
from support.one_fork_server import open_fork_server
from support.process_umask import umask
from support.ray_clusters import RayClusterLimit
from support.thorough import EXTENDS

share_kernels()
# Threads of tiny products wait for each other far longer than they compute. Here before torch is
# loaded, for this process and all that it starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As the command does: torch's compiler is not loaded.
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
# No example fails because the machine is slow or busy; what a test gets of fixtures it shares.
settings.register_profile(
    "auctune",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("auctune")


def pytest_configure(config: pytest.Config) -> None:
    """Before any process is started and Ray, torch or triton is imported."""
    if config.getoption("markexpr") != "gpu":
        # Triton kernels run on the CPU.
        os.environ["TRITON_INTERPRET"] = "1"
    # Services run in the tests' own process, beside commands whose output is tested: what is logged
    # outside `service.logging` goes to pytest's log, not to standard output.
    structlog.stdlib.recreate_defaults(log_level=None)
    set_ray_environment()
    open_fork_server()
    config.pluginmanager.register(RayClusterLimit())
    if config.getoption("durations"):
        config.pluginmanager.register(CpuSeconds(config.getoption("durations")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that a thorough run extends; leave out those of a GPU unless `-m gpu` asks."""
    for item in items:
        if isinstance(item, pytest.Function) and EXTENDS & vars(item.module).keys():
            item.add_marker("sampled")
    if config.getoption("markexpr") != "gpu":
        left_out = [item for item in items if item.get_closest_marker("gpu")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _same_process() -> Iterator[None]:
    """Fail the test that leaves its process another folder or umask, not one that runs later."""
    before = Path.cwd(), umask()
    yield
    after = Path.cwd(), umask()
    os.chdir(before[0])
    os.umask(before[1])
    assert after == before, "the test left its process another folder or umask"
