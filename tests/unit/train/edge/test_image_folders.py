from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from auctune.domain import InputError
from auctune.train.edge.images import read_data
from auctune.train.edge.recipe import Recipe


def draw(path: Path, grey: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 10), (grey, grey, grey)).save(path)


def test_cifar10s_binary_files_are_read_in_their_order(tmp_path: Path) -> None:
    for number in range(1, 6):
        record = np.full(3073, number, dtype=np.uint8)
        (tmp_path / f"data_batch_{number}.bin").write_bytes(record.tobytes() * 2)
    (tmp_path / "test_batch.bin").write_bytes(np.full(3073, 9, dtype=np.uint8).tobytes())
    data = read_data(Recipe(data="cifar10", folder=str(tmp_path)))
    assert data.train.labels.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert data.train.images[:, 0, 0, 0].tolist() == data.train.labels.tolist()
    assert data.test.labels.tolist() == [9]
    (tmp_path / "data_batch_3.bin").write_bytes(b"short")
    with pytest.raises(InputError, match=r"data_batch_3.bin: has 5 bytes"):
        read_data(Recipe(data="cifar10", folder=str(tmp_path)))


def test_caltech101s_classes_are_its_folders(tmp_path: Path) -> None:
    for index in range(6):
        draw(tmp_path / ("ant" if index < 3 else "bee") / f"{index}.png", 40 * index)
    data = read_data(Recipe(data="caltech101", folder=str(tmp_path), image_size=8))
    assert data.shape.image == (3, 8, 8)
    assert len(data.train) + len(data.test) == 6
    for one in (data.train, data.test):
        assert ((one.images[:, 0, 0, 0] >= 120) == (one.labels == 1)).all()
    (tmp_path / "bee" / "z.jpg").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"z.jpg: is no image"):
        read_data(Recipe(data="caltech101", folder=str(tmp_path), image_size=8))


def test_tiny_imagenets_validation_samples_are_those_to_measure_by(tmp_path: Path) -> None:
    draw(tmp_path / "train" / "n1" / "images" / "n1_0.JPEG", 10)
    draw(tmp_path / "train" / "n2" / "images" / "n2_0.JPEG", 200)
    draw(tmp_path / "val" / "images" / "v.JPEG", 90)
    (tmp_path / "val" / "val_annotations.txt").write_text("v.JPEG\tn2\t0\t0\t1\t1\n")
    data = read_data(Recipe(data="tiny-imagenet", folder=str(tmp_path)))
    assert data.train.labels.tolist() == [0, 1]
    assert data.test.labels.tolist() == [1]
    (tmp_path / "val" / "val_annotations.txt").write_text("v.JPEG\tn3\n")
    with pytest.raises(InputError, match="line 1: is no label"):
        read_data(Recipe(data="tiny-imagenet", folder=str(tmp_path)))
