"""Run all checks in order; a check that fails or hangs does not keep the others from running."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from auctune.doctor import checks_network, checks_settings, checks_storage, checks_system
from auctune.doctor.installation import (
    CheckTimeoutError,
    Finding,
    Installation,
    error,
    run_with_timeout,
    warn,
)
from auctune.domain import AuctuneError


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        run: yields the findings; it only reads, and leaves nothing behind.
        timeout_seconds: time limit.
        needs_settings: whether it is skipped if the settings cannot be read.
    """

    name: str
    run: Callable[[Installation], Iterable[Finding]]
    timeout_seconds: float = 10.0
    needs_settings: bool = False


CHECKS = (
    Check("python", checks_system.check_python),
    Check("extras", checks_system.check_extras),
    Check("devices", checks_system.check_devices, timeout_seconds=90.0),
    Check("kernels", checks_system.check_kernels, timeout_seconds=30.0),
    Check("settings", checks_settings.check_settings),
    Check("port", checks_network.check_port, needs_settings=True),
    Check("data folder", checks_storage.check_data_folder),
    Check("database", checks_storage.check_database, timeout_seconds=60.0, needs_settings=True),
    Check("bases", checks_settings.check_bases, needs_settings=True),
    Check("profiles", checks_settings.check_profiles, needs_settings=True),
    Check("vendors", checks_network.check_vendors, timeout_seconds=60.0, needs_settings=True),
    Check("ray", checks_network.check_ray, timeout_seconds=45.0),
    Check("clock", checks_storage.check_clock),
    Check("limits", checks_system.check_limits),
)


def run_checks(at: Installation, checks: Iterable[Check] | None = None) -> Iterator[Finding]:
    """Yield the findings of each check as soon as it has ended."""
    for check in CHECKS if checks is None else checks:
        for finding in _findings(check, at):
            yield replace(finding, check=check.name)


def _findings(check: Check, at: Installation) -> list[Finding]:
    if check.needs_settings and at.settings is None:
        return [warn("skipped: the settings cannot be read", "fix the settings first")]
    findings: list[Finding] = []

    def collect() -> None:
        for finding in _guarded(check, at):
            findings.append(finding)  # noqa: PERF402 - kept also if the next one never comes

    try:
        run_with_timeout(check.timeout_seconds, collect)
    except CheckTimeoutError as caught:
        # A copy: the thread that hangs may still add to it.
        return [*findings, error(f"the check {caught}", "inspect its disk, driver or server")]
    return findings


def _guarded(check: Check, at: Installation) -> Iterator[Finding]:
    try:
        yield from check.run(at)
    except ModuleNotFoundError as caught:
        message = f"skipped: the package {caught.name} is not installed"
        yield warn(message, "install the extras: see the check extras")
    except (AuctuneError, OSError) as caught:
        yield error(str(caught), "correct what the message names")
    except Exception as caught:
        # A defect of one check must not take the others with it.
        message = f"the check failed: {type(caught).__name__}: {caught}"
        yield error(message, "this is a defect of auctune: please report it")
