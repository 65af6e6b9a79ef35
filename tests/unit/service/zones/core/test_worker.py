"""Work for a job is under way once at a time, is done again where it failed, and given up."""

import asyncio
from collections.abc import Callable

from auctune.domain import InputError
from auctune.service.zones.core.worker import BackgroundJobs


def given_up(make: Callable[[], Exception | None], times: int) -> list[tuple[str, str]]:
    """What was given up when work was begun so often, and failed each time or did not."""
    told: list[tuple[str, str]] = []

    async def tell(job: str, why: str) -> None:
        told.append((job, why))

    async def work() -> None:
        if (error := make()) is not None:
            raise error

    async def run() -> None:
        background_jobs = BackgroundJobs(tell)
        for _ in range(times):
            background_jobs.start_once("a", work())
            while background_jobs.busy:
                await asyncio.sleep(0)
        await background_jobs.close()

    asyncio.run(run())
    return told


def test_work_that_fails_is_given_up_after_twenty_tries_and_not_before() -> None:
    assert given_up(lambda: OSError("disk full"), 19) == []
    assert given_up(lambda: OSError("disk full"), 21) == [("a", "disk full")]


def test_work_that_was_done_once_has_all_its_tries_again() -> None:
    failures = iter([OSError("full")] * 19 + [None] + [OSError("full")] * 19)
    assert given_up(lambda: next(failures), 39) == []


def test_wrong_data_are_given_up_at_once() -> None:
    wrong = InputError("data", "bad", "good")
    assert given_up(lambda: wrong, 1) == [("a", str(wrong))]


def test_work_for_a_job_that_is_under_way_is_not_begun_again() -> None:
    begun: list[int] = []

    async def never(job: str, why: str) -> None:
        raise AssertionError((job, why))

    async def run() -> None:
        background_jobs, gate = BackgroundJobs(never), asyncio.Event()

        async def work(number: int) -> None:
            begun.append(number)
            await gate.wait()

        background_jobs.start_once("a", work(1))
        await asyncio.sleep(0)
        background_jobs.start_once("a", work(2))
        background_jobs.start_once("b", work(3))
        await asyncio.sleep(0)
        gate.set()
        while background_jobs.busy:
            await asyncio.sleep(0)
        background_jobs.start_once("a", work(4))
        while background_jobs.busy:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert begun == [1, 3, 4]
