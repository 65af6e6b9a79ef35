"""Writes data for examples/edge/zone.toml: scikit-learn's digits, 600 at each of two sites.

python examples/edge/make_sites.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

NAMES = ("north", "south", "validation")


def main(folder: Path) -> None:
    """Write north.npz, south.npz, and validation.npz to measure by."""
    digits = load_digits()
    images = (digits.images * (255 / 16)).round().astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(NAMES, np.split(order, (600, 1200)), strict=True):
        path = folder / f"{name}.npz"
        np.savez_compressed(path, images=images[part], labels=digits.target[part])
        print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
