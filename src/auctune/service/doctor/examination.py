"""All checks, one after the other; none is kept from its turn by another that fails or hangs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from auctune.domain import AuctuneError
from auctune.service.doctor import (
    bases,
    clock,
    data_folder,
    database,
    devices,
    extras,
    kernels,
    limits,
    port,
    profiles,
    python,
    ray_cluster,
    settings,
    vendors,
)
from auctune.service.doctor.finding import Finding, warn, wrong
from auctune.service.doctor.installation import Installation
from auctune.service.doctor.limit import HungError, within


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at.

    Attributes:
        name: of its findings.
        look: what it does: it reads, and leaves nothing behind.
        seconds: that it may take.
    """

    name: str
    look: Callable[[Installation], Iterable[Finding]]
    seconds: float = 10.0


CHECKS = (
    Check("python", python.look),
    Check("extras", extras.look),
    Check("devices", devices.look, 90.0),
    Check("kernels", kernels.look, 30.0),
    Check("settings", settings.look),
    Check("port", port.look),
    Check("data folder", data_folder.look),
    Check("database", database.look, 60.0),
    Check("bases", bases.look),
    Check("profiles", profiles.look),
    Check("vendors", vendors.look, 60.0),
    Check("ray", ray_cluster.look, 45.0),
    Check("clock", clock.look),
    Check("limits", limits.look),
)


def examine(at: Installation, checks: Iterable[Check] | None = None) -> Iterator[Finding]:
    """What each check has found, as soon as it has.

    Args:
        at: what is examined.
        checks: in their order; none: all.
    """
    for check in CHECKS if checks is None else checks:
        yield from _findings(check, at)


def _findings(check: Check, at: Installation) -> list[Finding]:
    """What it found, and what kept it from finding more."""
    found: list[Finding] = []

    def collect() -> None:
        for finding in _each(check, at):
            found.append(finding)  # noqa: PERF402 - each counts, also if the next never comes

    try:
        within(check.seconds, collect)
    except HungError as error:
        mend = "see what its disk, driver or server does"
        return [*found, wrong(check.name, f"the check {error}", mend)]
    return found


def _each(check: Check, at: Installation) -> Iterator[Finding]:
    try:
        yield from check.look(at)
    except ModuleNotFoundError as error:
        said = f"not looked at: the package {error.name} is not installed"
        yield warn(check.name, said, "install the extras: see the lines extras")
    except (AuctuneError, OSError) as error:
        yield wrong(check.name, str(error), "mend what is named")
    except Exception as error:
        # A check that has a defect must not take the others with it.
        said = f"the check failed: {type(error).__name__}: {error}"
        yield wrong(check.name, said, "report it: that is a defect of auctune")
