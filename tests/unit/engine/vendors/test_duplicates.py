import numpy as np
import pytest

from auctune.engine.vendors.duplicates import DuplicateFilter, choose_bands, jaccard, shingle

SENTENCE = (
    "The quick brown fox jumps over the lazy dog while the old cat sleeps on the warm roof. " * 3
)


def test_case_and_blanks_do_not_make_a_new_row() -> None:
    rows = DuplicateFilter(0.9, seed=0)
    assert rows.find_near_or_add(["Hello  World"], line=4) is None
    assert rows.find_exact(["hello world"]) == 4
    assert rows.find_exact(["hello", "world"]) is None


def test_a_word_more_is_a_near_duplicate_and_another_number_is_not() -> None:
    rows = DuplicateFilter(0.9, seed=0)
    assert rows.find_near_or_add([SENTENCE + "Total: 12."], line=1) is None
    assert rows.find_near_or_add([SENTENCE + "Total: 12 !"], line=2) == 1
    assert rows.find_near_or_add([SENTENCE + "Total: 13."], line=3) is None


@pytest.mark.parametrize("similarity", [0.6, 0.8, 0.9, 1.0])
def test_near_duplicates_agree_with_comparing_all_pairs(similarity: float) -> None:
    rng = np.random.default_rng(7)
    words = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(6) for j in range(6)]
    base = [str(word) for word in rng.choice(words, 40)]
    rows = DuplicateFilter(similarity, seed=0)
    kept: dict[int, str] = {}
    for line in range(60):
        changed = list(base)
        for place in rng.choice(40, int(rng.integers(0, 12)), replace=False):
            changed[place] = str(rng.choice(words))
        text = " ".join(changed)
        expected = any(jaccard(shingle(text), shingle(old)) >= similarity for old in kept.values())
        assert (rows.find_near_or_add([text], line) is not None) == expected
        if not expected:
            kept[line] = text
    assert 0 < len(kept) < 60


def test_bands_miss_rarely() -> None:
    for similarity in (0.3, 0.5, 0.7, 0.9, 0.99, 1.0):
        bands, rows = choose_bands(similarity)
        assert bands * rows == 128
        assert (1 - similarity**rows) ** bands < 0.01


@pytest.mark.parametrize("digits", [True, False])
def test_rows_of_one_template_are_compared_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch, digits: bool
) -> None:
    rng = np.random.default_rng(5)
    words = [f"{chr(97 + i)}{chr(97 + j)}{chr(97 + k)}" for i, j, k in np.ndindex(12, 12, 12)]
    template = " ".join(str(word) for word in rng.choice(words, 60))
    compared = [0]

    def count(left: frozenset[str], right: frozenset[str]) -> float:
        compared[0] += 1
        return jaccard(left, right)

    monkeypatch.setattr("auctune.engine.vendors.duplicates.jaccard", count)
    monkeypatch.setattr("auctune.engine.vendors.duplicates.MAX_COMPARED", 20)
    rows = DuplicateFilter(0.9, seed=0)
    num_rows = 300
    for line in range(num_rows):
        own = f"number {line}" if digits else " ".join(str(word) for word in rng.choice(words, 6))
        assert rows.find_near_or_add([f"{template} {own}"], line) is None
    assert compared[0] <= (0 if digits else 20 * num_rows)
    # What is nearly one of them is still found.
    assert rows.find_near_or_add([f"{template} {own}."], num_rows) == num_rows - 1


def test_only_rows_that_share_their_digits_are_sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sketches take most of the time, and rows with other digits are never near-duplicates."""
    sketched: list[frozenset[str]] = []
    buckets_of = DuplicateFilter._buckets_of

    def count(self: DuplicateFilter, shingles: frozenset[str]) -> list[tuple[int, bytes]]:
        sketched.append(shingles)
        return buckets_of(self, shingles)

    monkeypatch.setattr(DuplicateFilter, "_buckets_of", count)
    duplicates = DuplicateFilter(0.9, 0)
    for number in range(50):
        row = (f"what is {number} plus one, if you know it at all", f"it is {number + 1}")
        assert duplicates.find_near_or_add(row, number) is None
    assert not sketched
    near = ("what is 7 plus one, if you know it at all", "it is 8!")
    assert duplicates.find_near_or_add(near, 50) == 7
    assert len(sketched) == 2
