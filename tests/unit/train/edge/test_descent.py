import numpy as np
import pytest
import torch

from auctune.domain.errors import CheckpointError
from auctune.numerics.rng import stream
from auctune.train.edge.descent import Contribution, TrainingState, step
from auctune.train.edge.recipe import Recipe


def test_steps_are_those_of_torchs_gradient_descent() -> None:
    random = stream(0, "descent")
    recipe = Recipe(learning_rate=0.1, momentum=0.8, weight_decay=0.01)
    state = TrainingState.first(random.normal(size=7).astype(np.float32))
    weights = torch.nn.Parameter(torch.from_numpy(state.weights.copy()))
    oracle = torch.optim.SGD([weights], lr=0.1, momentum=0.8, weight_decay=0.01)
    for _ in range(5):
        parts = random.normal(size=(3, 7)).astype(np.float32)
        counts = [4, 4, 2]
        weights.grad = torch.from_numpy(parts.sum(axis=0) / 10)
        oracle.step()
        brought = [Contribution(part, 0.0, n) for part, n in zip(parts, counts, strict=True)]
        state = step(state, brought, recipe)
    np.testing.assert_allclose(state.weights, weights.detach().numpy(), rtol=1e-5)
    assert state.steps == 5


def test_a_state_is_read_back_as_it_was_written() -> None:
    state = TrainingState(np.arange(3, dtype=np.float32), np.ones(3, dtype=np.float32), 4)
    again = TrainingState.from_bytes(state.to_bytes())
    np.testing.assert_array_equal(again.weights, state.weights)
    np.testing.assert_array_equal(again.velocity, state.velocity)
    assert again.steps == 4


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_half_a_state_is_refused(keep: int) -> None:
    data = TrainingState.first(np.ones(50, dtype=np.float32)).to_bytes()
    with pytest.raises(CheckpointError, match="damaged"):
        TrainingState.from_bytes(data[:keep])
