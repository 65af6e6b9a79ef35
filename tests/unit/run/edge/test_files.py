from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.edge import Site
from auctune.run.edge.resources import offered, wanted
from auctune.run.edge.training_file import read_training
from auctune.train.edge.recipe import Recipe


def test_a_job_has_the_defaults_and_its_own_keys(tmp_path: Path) -> None:
    file = tmp_path / "training.toml"
    file.write_text('[default]\nmomentum = 0\n[jobs."x 1"]\nmodel = "lenet"\n')
    recipes = read_training(file, ["x 1", "y"])
    assert recipes == {"x 1": Recipe(momentum=0, model="lenet"), "y": Recipe(momentum=0)}
    assert read_training(None, ["y"]) == {"y": Recipe()}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[defaults]\n", "defaults"),
        ("[default]\nspeed = 1\n", "default.speed"),
        ('[default]\nmomentum = "much"\n', "default.momentum"),
        ("[default]\nglobal_batch = true\n", "default.global_batch"),
        ("[default]\nglobal_batch = 65\n", "job x: global_batch"),
        ("[default]\nimage_size = 100_000_000\n", "job x: image_size"),
        ("[jobs.z]\n", "jobs.z"),
        ('[default]\ndata = "cifar10"\n', "job x: folder"),
        ("[default", "TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "training.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=place):
        read_training(file, ["x"])


def test_what_fits_a_site_fits_its_node() -> None:
    node = offered(Site("a", {"cpu": 1.0, "ram": 0.7}))
    # Seven times 0.1 is more than 0.7 in floats.
    actor = wanted("a", {"cpu": 1 / 7, "ram": 0.1, "gpu": 0.0})
    assert all(7 * units <= node[name] for name, units in actor.items())
    assert "unit:gpu" not in actor
