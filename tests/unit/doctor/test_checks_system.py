"""Checks of the machine and of the installed packages."""

import resource
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from auctune.doctor import Severity
from auctune.doctor.checks_system import (
    check_kernels,
    check_limits,
    device_findings,
    extra_finding,
    open_files_finding,
    python_finding,
    shared_memory_finding,
)
from auctune.numerics import jit
from support.installations import make_installation, only, severities


def test_an_old_python_is_wrong_and_this_one_is_not() -> None:
    assert python_finding((3, 10), "3.10").severity == Severity.ERROR
    assert python_finding((3, 11), "3.11").severity == Severity.OK
    assert "make setup PYTHON=python3.11" in python_finding((3, 10), "3.10").fix


def test_an_extra_is_there_or_lacks_a_package_or_has_another_release() -> None:
    there = extra_finding("train", [Requirement("numpy>=2.0")])
    lacks = extra_finding("train", [Requirement("numpy>=2.0"), Requirement("no-such-package")])
    other = extra_finding("train", [Requirement("numpy==1.0")])
    assert [one.severity for one in (there, lacks, other)] == [
        Severity.OK,
        Severity.WARN,
        Severity.ERROR,
    ]
    assert "not installed: no-such-package" in lacks.message
    assert "must be ==1.0" in other.message
    # auctune itself may be on no index.
    assert lacks.fix == "run make setup, or pip install 'no-such-package'"
    assert other.fix == "run make setup, or pip install 'numpy==1.0'"


def test_a_core_that_lacks_a_package_is_wrong() -> None:
    assert extra_finding("", [Requirement("no-such-package")]).severity == Severity.ERROR


def gpu(error: str | None) -> dict[str, Any]:
    return {"name": "H", "total_bytes": 8 << 30, "free_bytes": 6 << 30, "error": error}


def test_a_device_computes_or_is_wrong_with_what_its_driver_said() -> None:
    (fine,) = device_findings([gpu(None)], [("cuda", "a"), ("cuda:0", "b")])
    assert (fine.severity, "6.0 GiB of 8.0 GiB free" in fine.message) == (Severity.OK, True)
    (broken,) = device_findings([gpu("no kernel image")], [])
    assert (broken.severity, "no kernel image" in broken.message) == (Severity.ERROR, True)


@pytest.mark.parametrize("device", ["cuda:1", "tpu"])
def test_a_device_of_the_settings_that_is_not_there_is_wrong_at_its_place(device: str) -> None:
    place = "zones[0].node_types.gpu.device"
    missing = only(device_findings([gpu(None)], [(device, place)]), Severity.ERROR)
    assert place in missing.message


def test_settings_that_want_cuda_without_any_are_wrong() -> None:
    assert severities(device_findings([], [("cuda", "zones[0]")])) == {Severity.OK, Severity.ERROR}


def test_kernels_that_cannot_be_kept_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = make_installation(tmp_path)
    assert severities(check_kernels(at)) == {Severity.OK}
    monkeypatch.setattr(jit, "kernel_folder", lambda: Path("/proc/none"))
    warned = only(check_kernels(at), Severity.WARN)
    assert "NUMBA_CACHE_DIR" in warned.fix


def test_few_open_files_are_a_warning_and_very_few_are_wrong(tmp_path: Path) -> None:
    assert open_files_finding(8192, 8192).severity == Severity.OK
    assert (
        open_files_finding(resource.RLIM_INFINITY, resource.RLIM_INFINITY).severity == Severity.OK
    )
    few = open_files_finding(1024, 100_000)
    assert (few.severity, few.fix) == (Severity.WARN, "run ulimit -n 4096")
    assert "LimitNOFILE" in open_files_finding(100, 200).fix
    assert open_files_finding(100, 200).severity == Severity.ERROR
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    try:
        assert only(check_limits(make_installation(tmp_path)), Severity.WARN).message.startswith(
            "1,0"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_little_shared_memory_is_a_warning() -> None:
    assert shared_memory_finding(64 << 20).severity == Severity.WARN
    assert shared_memory_finding(4 << 30).severity == Severity.OK
