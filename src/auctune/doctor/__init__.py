"""`auctune doctor`: check an installation and say how to fix what is wrong."""

from auctune.doctor.installation import Finding, Installation, Severity, load_installation
from auctune.doctor.run import CHECKS, Check, run_checks

__all__ = [
    "CHECKS",
    "Check",
    "Finding",
    "Installation",
    "Severity",
    "load_installation",
    "run_checks",
]
