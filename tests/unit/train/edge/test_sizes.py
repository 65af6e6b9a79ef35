"""How many parameters models have, against the models themselves."""

import pytest

from auctune.train.edge.models import MODELS, make_model
from auctune.train.edge.sizes import NUM_PARAMETERS


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (2, 9, 15)])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_as_many_parameters_as_is_said(
    name: str, shape: tuple[int, int, int], classes: int
) -> None:
    model = make_model(name, shape, classes, seed=0)
    assert NUM_PARAMETERS[name](shape, classes) == sum(p.numel() for p in model.parameters())


def test_all_models_are_sized() -> None:
    assert NUM_PARAMETERS.keys() == MODELS.keys()
