"""A file that goes while a bid on it waits for its budget's turn, in zones of all kinds."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from decimal import Decimal
from typing import Any

import pytest

from auctune.service.accounts.registry import Budget
from support.edge_zones import edge_constants, edge_entry, rows_file
from support.metered_shop import OWNED, POOL, RENTED
from support.serving import SLOT_SECONDS, Served, make_file, make_pool, make_zone, serving
from support.spot_zones import spot_zone

JOBS = "/v1/fine_tuning/jobs"
SITES = "sites"
TERMS: dict[str, dict[str, Any]] = {
    OWNED: {"bid": "100"},
    RENTED: {"max_cost": "20"},
    POOL: {"max_cost": "2", "target_loss": 0.5},
    SITES: {"bid": "60"},
}
KINDS = pytest.mark.parametrize("zone", TERMS)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A zone of each kind, and ada's budget over all of them."""
    folder = tmp_path_factory.mktemp("market")
    sites = edge_entry(SITES, slot_seconds=SLOT_SECONDS, slots=20)
    zones = [make_zone(OWNED), spot_zone(folder, RENTED), make_pool(POOL), sites]
    with edge_constants(step_seconds=24.0), serving(folder / "data", make_file(zones)) as opened:
        opened.key("ada", budget=Budget(Decimal(1000), 86_400.0))
        yield opened


def work(served: Served, zone: str) -> tuple[dict[str, Any], str]:
    terms = {"zone": zone, "deadline": "+8m", **TERMS[zone]}
    if zone != SITES:
        file = served.upload()
        return {"model": "tiny", "training_file": file, "market": terms}, file
    client = served.client()
    files = {
        site: client.files.create(file=("i.jsonl", rows_file(seed)), purpose="fine-tune").id
        for seed, site in enumerate("ab")
    }
    for file in files.values():
        client.files.wait_for_processing(file, poll_interval=0.05, max_wait_seconds=30)
    chosen = {"n_epochs": 1, "batch_size": 8}
    body = {"model": "tiny", "training_file": files["a"], "hyperparameters": chosen}
    return body | {"market": {**terms, "sites": files}}, files["b"]


@contextmanager
def turn_taken(served: Served) -> Iterator[asyncio.Lock]:
    """Somebody else of ada's budget has the turn, until the end of the block."""
    turns = served.auction(OWNED)._budgets._locks
    (name,) = (one.key for one in served.service.spending.accounts("ada"))
    stack = AsyncExitStack()
    served.run(lambda: stack.enter_async_context(turns.acquire([name])))
    try:
        yield turns._locks[name]
    finally:
        served.run(stack.aclose)


def wait_for_turn(served: Served, lock: asyncio.Lock) -> None:
    """Wait until a bid waits for its turn."""

    async def reached() -> None:
        while not lock._waiters:
            await asyncio.sleep(0.005)

    served.run(lambda: asyncio.wait_for(reached(), 60))


def at_start(served: Served) -> bool:
    """Whether ada has no open job, and nothing was charged or set aside."""
    with served.http() as http:
        left = Decimal(http.get("/v1/ledger").json()["budget_remaining"])
    return left == 1000 and not served.service.open_jobs.jobs_of("ada")


@KINDS
def test_a_bid_whose_file_is_deleted_before_its_turn_is_refused_and_nothing_is_charged(
    served: Served, zone: str
) -> None:
    body, file = work(served, zone)
    place = "market.sites.b" if zone == SITES else "training_file"
    with ThreadPoolExecutor() as pool, served.http() as http, served.http() as other:
        with turn_taken(served) as turn:
            asked = pool.submit(http.post, JOBS, json=body)
            wait_for_turn(served, turn)
            assert other.delete(f"/v1/files/{file}").json()["deleted"]
        answer = asked.result(60)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, place)
    assert "deleted" in error["message"]
    assert at_start(served)


@KINDS
def test_a_received_job_keeps_its_files_until_it_is_over_and_fails_if_they_are_gone(
    served: Served, zone: str
) -> None:
    body, file = work(served, zone)
    # Nobody has counted by rows of this length.
    body["market"]["lora"] = {"max_length": 100}
    with served.http() as http:
        with turn_taken(served) as turn:
            job = http.post(JOBS, json=body).json()["id"]
            wait_for_turn(served, turn)
            assert http.get(f"{JOBS}/{job}").json()["status"] == "validating_files"
            refused = http.delete(f"/v1/files/{file}")
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "file_in_use")
            # As an operator's erasure of a user's data does, who asks no zone.
            record = served.run(lambda: served.service.files.get(file))
            served.run(lambda: served.service.files.delete(record))
        client = served.client()
        found = served.wait_for(lambda: client.fine_tuning.jobs.retrieve(job), "failed")
    assert found.error is not None
    assert (found.error.code, "deleted" in found.error.message) == ("invalid_request", True)
    assert at_start(served)


def test_a_file_that_many_others_were_asked_for_since_is_there(served: Served) -> None:
    files, file = served.service.files, served.upload()
    files._cache.clear()
    assert files.exists(file)
    record = served.run(lambda: files.get(file))
    served.run(lambda: files.delete(record))
    assert not files.exists(file)


def test_an_examination_that_ends_during_a_deletion_does_not_bring_the_file_back(
    served: Served,
) -> None:
    files, file = served.service.files, served.upload()
    record = served.run(lambda: files.require(file, "ada", "training_file"))

    async def both() -> None:
        await asyncio.gather(files.delete(record), files.set_error(file, "too late"))

    served.run(both)
    assert not files.exists(file)
    assert served.run(lambda: files.get(file)) is None


def test_a_file_whose_content_goes_while_it_is_asked_about_is_refused(served: Served) -> None:
    file = served.upload()
    served.service.files.blobs.delete(file)
    # The size by rows of this length is not stored yet.
    market = {"zone": OWNED, "deadline": "+8m", "lora": {"max_length": 100}}
    body = {"model": "tiny", "training_file": file, "market": market}
    with served.http() as http:
        answer = http.post("/v1/quotes", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "training_file")
    assert "cannot be read" in error["message"]
