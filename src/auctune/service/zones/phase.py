"""Where an admitted job stands, in zones that sell slots."""

from enum import StrEnum


class Phase(StrEnum):
    """Where an admitted job stands."""

    PLANNED = "planned"
    """It has not begun: its first slot is to come, or it waits to be started."""
    TRAINING = "training"
    """It has trained, and has slots to come."""
    PAUSED = "paused"
    """Its owner wants nothing held or run for a while."""
    TRAINED = "trained"
    """All is trained; what came out is being packed."""
