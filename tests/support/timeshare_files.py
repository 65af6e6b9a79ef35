"""Folders of made-up recorded curves, and a bundle file on them."""

import json
from pathlib import Path

from support.loss_curves import made_up_curve

BUNDLE = """
[pool]
unit_seconds = 0.5
allocator = "lara"

[lara]
exploration = 30

[[thread]]
name = "easy"
deadline = 30
threshold = 0.3
kind = "k1"

[[thread]]
name = "late"
start = 5
deadline = 40
threshold = 0.25
kind = "k2"
seed = 2

[[thread]]
name = "hopeless"
deadline = 20
threshold = 1e-6
kind = "pure-3"
batches_per_unit = 20
"""


def write_curves(folder: Path, num_pure: int = 5, num_mixed: int = 10) -> Path:
    """A folder of curves of both bundles; kinds k0..k4, seeds of their own."""
    folder.mkdir(exist_ok=True)
    names = [f"pure-{k}" for k in range(num_pure)] + [f"mixed-{k}" for k in range(num_mixed)]
    entries = []
    for index, name in enumerate(names):
        curve = made_up_curve(index, num_batches=2000)
        rows = [f"{b:.0f},{loss:.5g}" for b, loss in zip(curve.batches, curve.loss, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["batches,loss", *rows]) + "\n")
        entries.append(
            {
                "name": name,
                "file": f"{name}.csv",
                "bundle": name.split("-")[0],
                "kind": f"k{index % 5}",
                "seed": index // 5,
                "batches_per_second": 80.0 + index,
                "last_loss": 0.1,
            }
        )
    (folder / "manifest.json").write_text(json.dumps({"versions": {}, "curves": entries}))
    return folder


def write_bundle(path: Path, text: str = BUNDLE) -> Path:
    """A bundle's file."""
    path.write_text(text)
    return path
