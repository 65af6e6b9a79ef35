"""A network that an edge zone left is the one that it trained."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from auctune.domain import InputError
from auctune.train.edge.gradients import GradientMaker
from auctune.train.edge.images import Images, ImageShape
from auctune.train.edge.loading import load_model
from auctune.train.edge.recipe import Recipe

SHAPE = ImageShape((1, 8, 8), 10)


def test_what_is_loaded_says_of_images_what_was_trained(tmp_path: Path) -> None:
    maker = GradientMaker(Recipe(model="small", seed=3), SHAPE)
    images = np.arange(640, dtype=np.int64).reshape(10, 1, 8, 8).astype(np.uint8)
    labels = np.arange(10)
    save_file(maker.named_weights(), tmp_path / "model.safetensors")
    receipt = {"model": "small", "image": list(SHAPE.image), "classes": SHAPE.num_classes}
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    model = load_model(tmp_path)
    with torch.no_grad():
        scores = model(torch.tensor(images).float() / 127.5 - 1)
    loss = float(torch.nn.functional.cross_entropy(scores, torch.tensor(labels)))
    assert loss == pytest.approx(maker.evaluate(Images(images, labels))[0], rel=1e-5)


def test_another_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="auctune fetch"):
        load_model(tmp_path)
