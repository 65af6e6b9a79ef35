import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from auctune.domain import InputError
from auctune.train.edge.alone import Alone, compute_part
from auctune.train.edge.batches import deal_out, slot_batches
from auctune.train.edge.descent import TrainingState, step
from auctune.train.edge.gradients import GradientMaker
from auctune.train.edge.images import digits
from auctune.train.edge.models import MODELS, MeanPool, make_model
from auctune.train.edge.recipe import Recipe

DATA = digits()
RECIPE = Recipe(global_batch=16, micro_batch=8)
CHUNKS = [DATA.train.at(part[:20]) for part in deal_out(RECIPE, DATA.train.labels, 6)]


@pytest.mark.parametrize("model", list(MODELS))
def test_gradients_of_parts_add_up_to_that_of_the_whole(model: str) -> None:
    maker = GradientMaker(Recipe(model=model), DATA.shape)
    images, labels = DATA.train.images[:12], DATA.train.labels[:12]
    parts = [maker.compute(images[at : at + 4], labels[at : at + 4]) for at in (0, 4, 8)]
    net = make_model(model, DATA.shape.image, DATA.shape.num_classes, 0)
    pixels = torch.tensor(images).float() / 127.5 - 1
    loss = cross_entropy(net(pixels), torch.tensor(labels), reduction="sum")
    found = torch.autograd.grad(loss, list(net.parameters()))
    whole = torch.cat([one.reshape(-1) for one in found])
    np.testing.assert_allclose(
        sum(part.gradient for part in parts), whole.numpy(), rtol=1e-3, atol=2e-4
    )


@pytest.mark.parametrize("side", [4, 5, 7, 8, 14, 16, 31])
def test_pooling_with_a_deterministic_gradient_is_torchs_adaptive_pooling(side: int) -> None:
    images = torch.randn(2, 3, side, side + 1, generator=torch.Generator().manual_seed(side))
    here, there = (images.clone().requires_grad_() for _ in range(2))
    found, expected = MeanPool(4, side, side + 1)(here), nn.AdaptiveAvgPool2d(4)(there)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(here.grad, there.grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", list(MODELS))
def test_a_model_has_no_layer_without_a_deterministic_gradient_on_a_gpu(model: str) -> None:
    net = make_model(model, (3, 28, 28), 10, 0)
    adaptive = [one for one in net.modules() if isinstance(one, nn.AdaptiveAvgPool2d)]
    # A single output is a mean over all.
    assert all(one.output_size == 1 for one in adaptive)


@pytest.mark.parametrize("num_workers", [2, 3])
def test_weights_are_the_same_bits_for_any_number_of_workers(num_workers: int) -> None:
    makers = [GradientMaker(RECIPE, DATA.shape) for _ in range(num_workers)]
    state = TrainingState.first(makers[0].weights)
    sizes = {number: len(chunk) for number, chunk in enumerate(CHUNKS)}
    for batch in slot_batches(RECIPE, sizes, 2):
        for maker in makers:
            maker.set_weights(state.weights)
        brought = [
            compute_part(makers[part.chunk % num_workers], RECIPE, part, CHUNKS[part.chunk])
            for part in batch
        ]
        state = step(state, brought, RECIPE)
    alone = Alone(GradientMaker(RECIPE, DATA.shape), RECIPE, CHUNKS)
    alone.train(range(6), 2)
    np.testing.assert_array_equal(state.weights, alone.state.weights)


def test_training_lowers_the_loss_of_samples_set_apart() -> None:
    alone = Alone(GradientMaker(RECIPE, DATA.shape), RECIPE, CHUNKS)
    before, _ = alone.evaluate(DATA.test)
    alone.train(range(6), 5)
    after, accuracy = alone.evaluate(DATA.test)
    assert after < before / 2
    assert accuracy > 0.6


def test_a_model_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match="small, lenet, residual"):
        GradientMaker(Recipe(model="vast"), DATA.shape)
