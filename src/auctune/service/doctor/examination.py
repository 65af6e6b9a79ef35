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
    try:
        return within(check.seconds, lambda: list(check.look(at)))
    except HungError as error:
        return [wrong(check.name, f"the check {error}", "see what its disk, driver or server does")]
    except ModuleNotFoundError as error:
        said = f"not looked at: the package {error.name} is not installed"
        return [warn(check.name, said, "install the extras: see the line extras")]
    except (AuctuneError, OSError) as error:
        return [wrong(check.name, str(error), "see what is said")]
    except Exception as error:
        # A check that has a defect must not take the others with it.
        said = f"the check failed: {type(error).__name__}: {error}"
        return [wrong(check.name, said, "report it: that is a defect of auctune")]
