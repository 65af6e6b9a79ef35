"""Speed that the machines of a zone reach in its slots, compared with the speed sold."""

SLOWER = "the machine was slower than sold"
"""Why the plan of a prepaid job was replaced."""

TRAINED_LATER = f"{SLOWER}; what it missed is trained later, without charge"
"""Note for the owner of a prepaid job whose slot was slower than sold."""

# Work is uneven, and profiles hold back a margin: a shortfall up to this share of what was sold
# needs no refund, no note and no new plan.
MAX_SHORTFALL = 0.1

_MIN_SPEED = 0.1
# Of the way back to full speed, in a slot without work.
_RECOVERY = 0.125


class SpeedEstimator:
    """Estimate of the speed of a zone's machines, relative to their profile.

    A slot slower than the estimate replaces it, a faster one moves it half way, and one without
    work moves it a little back to 1, so that a machine that was busy is sold again. It is not
    recorded: each decision and plan has the speed that it was made for, and a restart begins
    with 1.

    Attributes:
        speed: in [0.1, 1].
    """

    def __init__(self) -> None:
        self.speed = 1.0

    def record_slot(self, reached: float) -> None:
        """Record the speed that was reached in a slot, relative to the profile."""
        reached = min(1.0, max(_MIN_SPEED, reached))
        self.speed = min(reached, (self.speed + reached) / 2)

    def record_idle_slot(self) -> None:
        """Record a slot in which nothing was to be trained."""
        self.speed += _RECOVERY * (1.0 - self.speed)
