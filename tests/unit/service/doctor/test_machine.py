"""Checks of the machine and of what is installed on it."""

import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from auctune.numerics import jit
from auctune.service.doctor import State
from auctune.service.doctor.clock import (
    kernel_state,
    newest_time,
    not_behind,
    synchronized,
)
from auctune.service.doctor.clock import (
    look as look_at_clock,
)
from auctune.service.doctor.devices import judged as judged_devices
from auctune.service.doctor.extras import judged as judged_extra
from auctune.service.doctor.kernels import look as look_at_kernels
from auctune.service.doctor.limits import look as look_at_limits
from auctune.service.doctor.limits import open_files, shared
from auctune.service.doctor.python import judged as judged_python
from support.examined import found, installation, only, states
from support.other_user import without_rights


def test_an_old_python_is_wrong_and_this_one_is_not() -> None:
    assert judged_python((3, 10), "3.10").state == State.WRONG
    assert judged_python((3, 11), "3.11").state == State.OK
    assert "make setup PYTHON=python3.11" in judged_python((3, 10), "3.10").mend


def test_an_extra_is_there_or_lacks_a_package_or_has_another_release() -> None:
    there = judged_extra("train", [Requirement("numpy>=2.0")])
    lacks = judged_extra("train", [Requirement("numpy>=2.0"), Requirement("no-such-package")])
    other = judged_extra("train", [Requirement("numpy==1.0")])
    assert [one.state for one in (there, lacks, other)] == [State.OK, State.WARN, State.WRONG]
    assert "not installed: no-such-package" in lacks.said
    assert "must be ==1.0" in other.said
    assert "auctune[train]" in other.mend


def test_a_core_that_lacks_a_package_is_wrong() -> None:
    assert judged_extra("", [Requirement("no-such-package")]).state == State.WRONG


def gpu(error: str | None) -> dict[str, Any]:
    return {"name": "H", "total_bytes": 8 << 30, "free_bytes": 6 << 30, "error": error}


def test_a_device_computes_or_is_wrong_with_what_its_driver_said() -> None:
    (fine,) = judged_devices([gpu(None)], [("cuda", "a"), ("cuda:0", "b")])
    assert (fine.state, "6.0 GiB of 8.0 GiB free" in fine.said) == (State.OK, True)
    (broken,) = judged_devices([gpu("no kernel image")], [])
    assert (broken.state, "no kernel image" in broken.said) == (State.WRONG, True)


@pytest.mark.parametrize("device", ["cuda:1", "tpu"])
def test_a_device_of_the_settings_that_is_not_there_is_wrong_at_its_place(device: str) -> None:
    place = "zones[0].node_types.gpu.device"
    missing = only(judged_devices([gpu(None)], [(device, place)]), State.WRONG)
    assert place in missing.said


def test_settings_that_want_cuda_without_any_are_wrong() -> None:
    assert states(judged_devices([], [("cuda", "zones[0]")])) == {State.OK, State.WRONG}


def test_kernels_that_cannot_be_kept_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = installation(tmp_path)
    assert states(found(look_at_kernels, at)) == {State.OK}
    monkeypatch.setattr(jit, "kernel_folder", lambda: Path("/proc/none"))
    warned = only(found(look_at_kernels, at), State.WARN)
    assert "NUMBA_CACHE_DIR" in warned.mend


def test_few_open_files_are_a_warning_and_very_few_are_wrong(tmp_path: Path) -> None:
    assert open_files(8192, 8192).state == State.OK
    assert open_files(resource.RLIM_INFINITY, resource.RLIM_INFINITY).state == State.OK
    few = open_files(1024, 100_000)
    assert (few.state, few.mend) == (State.WARN, "ulimit -n 4096")
    assert "LimitNOFILE" in open_files(100, 200).mend
    assert open_files(100, 200).state == State.WRONG
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    try:
        assert only(found(look_at_limits, installation(tmp_path)), State.WARN).said.startswith(
            "1,0"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_little_shared_memory_is_a_warning() -> None:
    assert shared(64 << 20).state == State.WARN
    assert shared(4 << 30).state == State.OK


def test_a_clock_behind_its_own_files_is_wrong(tmp_path: Path) -> None:
    assert newest_time(tmp_path / "none") is None
    assert newest_time(tmp_path) is None
    (tmp_path / "auctune.db").touch()
    os.utime(tmp_path / "auctune.db", (0, time.time() + 3600))
    newest = newest_time(tmp_path)
    assert newest is not None
    assert not_behind(newest, time.time()).state == State.WRONG
    assert not_behind(newest, newest + 1.0).state == State.OK


def test_what_the_kernel_says_of_the_clock_is_told() -> None:
    told = [synchronized(state).state for state in (None, 0, 5)]
    assert told == [State.OK, State.OK, State.WARN]
    assert kernel_state() in (None, *range(6))


def test_a_clock_is_looked_at_without_any_data(tmp_path: Path) -> None:
    assert State.WRONG not in states(found(look_at_clock, installation(tmp_path)))


def test_rights_are_really_gone_in_these_tests(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with without_rights(), pytest.raises(PermissionError):
        (tmp_path / "x").touch()
