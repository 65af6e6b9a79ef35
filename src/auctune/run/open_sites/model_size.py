"""How large the models of the edge are, for whoever sells their training."""

from auctune.train.edge.sizes import NUM_PARAMETERS, Shape

_BYTES = 4


def model_mb(model: str, image: Shape, classes: int) -> float:
    """MB of a model's parameters, and of their gradient.

    Args:
        model: its name.
        image: channels, height, width of what it looks at.
        classes: that it tells apart.
    """
    return NUM_PARAMETERS[model](image, classes) * _BYTES / 1e6
