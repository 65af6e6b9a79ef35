"""`auctune doctor`: what of an installation works, what does not, and what mends it."""

from auctune.service.doctor.examination import CHECKS, Check, examine
from auctune.service.doctor.finding import Finding, State
from auctune.service.doctor.installation import Installation, look_up

__all__ = ["CHECKS", "Check", "Finding", "Installation", "State", "examine", "look_up"]
