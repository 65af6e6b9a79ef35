"""Folders of recorded curves: what is read, and what is refused by its line or key."""

import json
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.timeshare.recorded import of_kind, read_curve_file, read_curves
from support.loss_curves import made_up_curve
from support.timeshare_files import write_curves


def test_curves_are_read_as_they_were_written(tmp_path: Path) -> None:
    curves = read_curves(write_curves(tmp_path / "curves"))
    assert [curve.name for curve in curves][:2] == ["pure-0", "pure-1"]
    assert len(curves) == 15
    made = made_up_curve(3, num_batches=2000)
    assert np.array_equal(curves[3].curve.batches, made.batches)
    assert np.allclose(curves[3].curve.loss, made.loss, rtol=1e-4)
    assert (curves[7].bundle, curves[7].kind, curves[7].seed) == ("mixed", "k2", 1)
    assert curves[7].batches_per_second == 87.0


def test_a_kind_is_a_name_or_the_first_of_its_kind(tmp_path: Path) -> None:
    curves = read_curves(write_curves(tmp_path / "curves"))
    assert of_kind(curves, "mixed-4").name == "mixed-4"
    assert of_kind(curves, "k4").name == "pure-4"
    with pytest.raises(InputError, match="'vit' was not recorded; expected one of k0, k1"):
        of_kind(curves, "vit")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("batches,loss\n5,1.0\n5,0.9\n", "line 3: batches"),
        ("batches,loss\n1.5,1.0\n", "line 2: batches"),
        ("batches,loss\n0,1.0\n", "line 2: batches"),
        ("batches,loss\n5,1.0\n6,\n", "line 3: loss"),
        ("batches,loss\n5,nan\n", "line 2: loss"),
        ("batches,loss\n", ""),
        ("batches\n5\n", "line 1"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "curve.csv"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        read_curve_file(path)
    assert raised.value.place == (f"{path}: {place}" if place else str(path))


def test_a_broken_manifest_is_named(tmp_path: Path) -> None:
    folder = write_curves(tmp_path / "curves")
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["curves"][1]["batches_per_second"] = 0
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"curves\[1\]\.batches_per_second"):
        read_curves(folder)
    content["curves"][1] = content["curves"][0]
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"curves\[1\]\.name: 'pure-0' is there twice"):
        read_curves(folder)
    path.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_curves(folder)
    with pytest.raises(InputError, match="cannot be read"):
        read_curves(tmp_path)
