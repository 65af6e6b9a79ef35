from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auctune.train.edge.batches import deal_out, samples_of, slot_batches
from auctune.train.edge.recipe import Recipe
from support.thorough import drawn

RECIPE = Recipe(global_batch=12, micro_batch=4)
SIZES = st.dictionaries(st.integers(0, 20), st.integers(1, 11), min_size=1, max_size=5)


@given(sizes=SIZES, epochs=st.integers(1, 3))
@drawn(50)
def test_each_epoch_passes_each_sample_of_each_chunk_once(
    sizes: dict[int, int], epochs: int
) -> None:
    passed: Counter[tuple[int, int, int]] = Counter()
    for batch in slot_batches(RECIPE, sizes, epochs):
        assert sum(part.num_samples for part in batch) <= 12
        for part in batch:
            for sample in samples_of(RECIPE, part, sizes[part.chunk]):
                passed[part.epoch, part.chunk, int(sample)] += 1
    expected = {(e, c, s) for e in range(epochs) for c, n in sizes.items() for s in range(n)}
    assert set(passed) == expected
    assert set(passed.values()) == {1}


@given(sizes=SIZES)
@drawn(20)
def test_batches_do_not_depend_on_the_order_in_which_chunks_are_named(
    sizes: dict[int, int],
) -> None:
    turned = dict(reversed(sizes.items()))
    assert list(slot_batches(RECIPE, sizes, 2)) == list(slot_batches(RECIPE, turned, 2))


def test_by_label_chunks_have_few_classes_and_shuffled_ones_many() -> None:
    labels = np.repeat(np.arange(10), 30)
    for split, most in (("by_label", 2), ("shuffled", 10)):
        dealt = deal_out(Recipe(split=split), labels, 15)
        assert sorted(np.concatenate(dealt).tolist()) == list(range(300))
        classes = [len(set(labels[part].tolist())) for part in dealt]
        assert max(classes) <= most
        assert (min(classes) > 2) == (split == "shuffled")
