"""A network that an edge zone trained, loaded from what its job left."""

import json
from pathlib import Path

from safetensors.torch import load_file
from torch import nn

from auctune.domain import InputError
from auctune.train.edge.models import make_model

WEIGHTS = "model.safetensors"
RECEIPT = "receipt.json"


def load_model(folder: str | Path) -> nn.Module:
    """The network, ready to evaluate.

    Args:
        folder: that `auctune fetch` made: model.safetensors and receipt.json.

    Returns:
        From images, float [N, C, H, W], bytes as `images.float() / 127.5 - 1`, to a score for each
        class [N, classes]; a label is the place of the highest one.

    Raises:
        InputError: if the folder holds something else.
    """
    folder = Path(folder)
    try:
        receipt = json.loads((folder / RECEIPT).read_bytes())
        name, image, classes = (receipt[key] for key in ("model", "image", "classes"))
    except (OSError, ValueError, KeyError, TypeError):
        expected = f"a folder of auctune fetch, with {WEIGHTS} and {RECEIPT}"
        raise InputError(str(folder), f"has no {RECEIPT} of a network", expected) from None
    model = make_model(name, tuple(image), classes, seed=0)
    model.load_state_dict(load_file(folder / WEIGHTS))
    return model.eval()
