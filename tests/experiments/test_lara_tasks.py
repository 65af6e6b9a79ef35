"""The paper's tasks on synthetic data train, and the same from the same seed."""

import numpy as np
import pytest
import torch

from auctune.domain.errors import InputError
from auctune.numerics.rng import stream
from lara_tasks.module_job import generator_of
from lara_tasks.synthetic import (
    BAD,
    BANDS,
    FRAMES,
    GOOD,
    NOT,
    NUM_WORDS,
    SIDE,
    WORDS,
    Blur,
    digits,
    make_room,
    reviews,
    sounds,
)
from lara_tasks.tasks import TASKS, make_task


@pytest.mark.slow
@pytest.mark.parametrize("kind", TASKS)
def test_a_task_trains_and_a_pause_of_any_kind_changes_nothing(kind: str) -> None:
    through, paused, again = (make_task(kind, seed=2) for _ in range(3))
    losses = through.losses(12)
    first = paused.losses(5)
    again.restore(paused.state())
    paused.suspend()
    paused.resume()
    assert np.array_equal(np.concatenate([first, paused.losses(7)]), losses)
    assert np.array_equal(again.losses(7), losses[5:])
    assert losses[-3:].mean() < losses[:3].mean()


def test_another_seed_is_another_job() -> None:
    assert make_task("cnn", seed=1).step(1) != make_task("cnn", seed=2).step(1)


def test_an_unknown_task_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InputError, match="'gpt'; expected one of vit, lstm, cnn"):
        make_task("gpt", seed=1)


def test_dagger_gathers_what_it_sees_and_stops_when_it_is_full() -> None:
    job = make_task("dagger", seed=3)
    source = job._source
    rows = []
    for _ in range(4):
        job.step(1)
        rows.append(len(source.state().tensors["views"]))
        source._taken = 400 * len(rows)  # type: ignore[attr-defined]
    assert rows[0] < rows[1] < rows[2] < rows[3] <= 4000


def test_a_blurred_image_is_the_image_moved_by_a_pixel_at_most() -> None:
    images, _ = digits()
    moved = Blur(noise=0.0)(images[:20], generator_of(1, "test"))
    for image, result in zip(images[:20], moved, strict=True):
        framed = torch.nn.functional.pad(image, (1, 1, 1, 1), value=-1.0)[0]
        places = [framed[d : d + 8, r : r + 8] for d in range(3) for r in range(3)]
        assert any(torch.equal(place, result[0]) for place in places)


def test_the_expert_of_a_room_walks_a_shortest_way() -> None:
    for seed in range(20):
        room = make_room(stream(seed, "room"))
        cell, steps = room.start, 0
        while cell != room.treasure:
            cell, steps = room.move(cell, room.expert(cell)), steps + 1
            assert steps <= SIDE * SIDE
        assert steps == room.distance[room.start] >= 2


def test_reviews_are_good_as_most_of_their_sentences_are() -> None:
    texts, labels = reviews(200, seed=4, wrong=0.0)
    for text, label in zip(texts.tolist(), labels.tolist(), strict=True):
        words = [WORDS[number] for number in text]
        good = 0
        for before, word in zip(["", *words], words, strict=False):
            if word in GOOD or word in BAD:
                good += (word in GOOD) != (before == NOT)
        assert (good > 2) == bool(label)


def test_a_share_of_reviews_is_labelled_wrong() -> None:
    _, right = reviews(400, seed=4, wrong=0.0)
    _, some = reviews(400, seed=4, wrong=0.1)
    assert 0.05 < (right != some).float().mean() < 0.15


def test_sounds_have_the_stated_shapes_and_both_answers() -> None:
    features, answers = sounds(50, seed=1)
    assert features.shape == (50, FRAMES, BANDS)
    assert answers.shape == (50, NUM_WORDS)
    assert 0.4 < answers.mean() < 0.6
    assert torch.isfinite(features).all()
