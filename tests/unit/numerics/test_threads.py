"""BLAS on one thread, in blocks that overlap."""

from collections.abc import Iterator
from threading import Event, Thread

import pytest
import scipy.linalg  # noqa: F401  # loads the libraries that are counted
from threadpoolctl import ThreadpoolController

from auctune.numerics.threads import one_thread


def blas_threads() -> set[int]:
    libraries = ThreadpoolController().select(user_api="blas").info()
    return {library["num_threads"] for library in libraries}


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = max(blas_threads())
    use(2)
    assert blas_threads() == {2}
    yield
    use(before)


def use(num_threads: int) -> None:
    """In a thread that ends: one that lived on would keep all others from changing it."""
    limit = ThreadpoolController().limit
    thread = Thread(target=lambda: limit(limits=num_threads, user_api="blas"))
    thread.start()
    thread.join()


def test_a_block_is_on_one_thread_and_afterwards_all_is_as_before() -> None:
    with one_thread():
        assert blas_threads() == {1}
        with one_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_an_error_in_a_block_ends_it() -> None:
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert blas_threads() == {2}


def test_blocks_of_two_threads_that_overlap_leave_all_as_it_was() -> None:
    second_begun, first_over = Event(), Event()
    seen: list[set[int]] = []

    def second() -> None:
        with one_thread():
            second_begun.set()
            first_over.wait(timeout=60)
            seen.append(blas_threads())

    other = Thread(target=second)
    with one_thread():
        other.start()
        assert second_begun.wait(timeout=60)
    # The first block is over while the second goes on.
    first_over.set()
    other.join(timeout=60)
    assert seen == [{1}]
    assert blas_threads() == {2}
