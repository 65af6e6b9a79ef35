"""kill -9 of a service under load, again and again, with a record kept outside of it.

The bidders' own record is what they sent and what was answered. Bids without an answer are made
again in the next life with their idempotency keys, and so are some that had one. At the end the
database must hold each bid once, decided and charged as it was answered.
"""

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from sqlalchemy import Connection, create_engine, func, select

from auctune.service.storage.tables import entries, events, jobs
from support.load import Acknowledged, Load, make_bidders
from support.service_process import ServiceProcess, write_service
from support.tiny_architecture import tiny_architecture

_RATE = 150.0
_CONNECTIONS = 16
_USERS = 4
_LONGEST_LIFE = 90.0
_STEP = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class KillReport:
    """What the records say.

    Attributes:
        kills: of the service.
        sent, acknowledged, unanswered, repeated: bids, by the outside record; repeated ones were
            made again with the same idempotency key.
        admitted, trained: jobs, and slots of training on record, by the log.
        start_seconds: of each life.
        faults: what is not as it should be; nothing, if all is well.
    """

    kills: int
    sent: int
    acknowledged: int
    unanswered: int
    repeated: int
    admitted: int
    trained: int
    start_seconds: tuple[float, ...]
    faults: tuple[str, ...]


def kill_again_and_again(
    folder: Path,
    kills: int,
    seed: int,
    tell: Callable[[int], None] = lambda done: None,
    executor: str = "local",
) -> KillReport:
    """Run a service for so many lives, each ended by SIGKILL at a random moment.

    Args:
        folder: for settings and data.
        kills: of the service.
        seed: of moments and bids.
        tell: told how many kills there were.
        executor: of the zone.
    """
    draw = random.Random(seed)
    config = write_service(
        folder,
        tiny_architecture(),
        slot_seconds=2.0,
        slots=600,
        mode="fused",
        share=0.1,
        executor=executor,
    )
    service = ServiceProcess(config, folder / "data")
    starts = [service.start()]
    bidders = make_bidders(service, _USERS)
    for bidder in bidders:
        bidder.has_tokens = True
        bidder.deadline = (30, 1100, "s")
    load = Load(service.address, bidders, _CONNECTIONS, _RATE, draw)
    unanswered = repeated = 0
    try:
        for life in range(kills):
            # A node takes longer to be ready than most lives last.
            slots = 1 if life % 5 == 2 else 0
            asyncio.run(_load_until_killed(service, load, draw.uniform(0.3, 3.0), slots))
            unanswered += len(load.unknown)
            load.again, load.unknown = load.unknown, []
            some = draw.sample(load.answers, min(20, len(load.answers)))
            load.again += [(one.token, one.request) for one in some]
            repeated += len(load.again)
            starts.append(service.start())
            load.address = service.address
            tell(life + 1)
        asyncio.run(load.run(1.0))
        faults = [f"{len(load.unknown)} bids were never answered"] if load.unknown else []
    finally:
        service.kill()
    admitted, trained, found = _look(folder / "data", load.answers)
    return KillReport(
        kills,
        load.count,
        len(load.answers),
        unanswered,
        repeated,
        admitted,
        trained,
        tuple(starts),
        tuple(faults + found),
    )


async def _load_until_killed(
    service: ServiceProcess, load: Load, seconds: float, slots: int
) -> None:
    """Bid until so many jobs have trained in this life, and then so many seconds more."""
    bidding = asyncio.create_task(load.run(_LONGEST_LIFE))
    before = await asyncio.to_thread(_count_trained, service.data)
    while slots and not bidding.done():
        await asyncio.sleep(0.5)
        if await asyncio.to_thread(_count_trained, service.data) >= before + slots:
            break
    await asyncio.sleep(seconds)
    await asyncio.to_thread(service.kill)
    await bidding


def _count_trained(data: Path) -> int:
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:
        chosen = select(func.count()).where(events.c.type == "job.trained")
        count = connection.execute(chosen).scalar_one()
    engine.dispose()
    return count


def _look(data: Path, answers: list[Acknowledged]) -> tuple[int, int, list[str]]:
    engine = create_engine(f"sqlite:///{data / 'auctune.db'}")
    with engine.connect() as connection:
        found = _check(connection, answers)
    engine.dispose()
    return found


def _check(connection: Connection, answers: list[Acknowledged]) -> tuple[int, int, list[str]]:
    faults: list[str] = []
    by_token: defaultdict[str, set[str]] = defaultdict(set)
    payments: dict[str, str | None] = {}
    received: set[str] = set()
    for answer in answers:
        by_token[answer.token].add(answer.job)
        if not answer.is_decided:
            received.add(answer.job)
        elif payments.setdefault(answer.job, answer.payment) != answer.payment:
            faults.append(f"{answer.job} was answered with two payments")
    faults += [f"bid {token} became {len(n)} jobs" for token, n in by_token.items() if len(n) > 1]
    decided: defaultdict[str, list[str | None]] = defaultdict(list)
    tokens: Counter[str] = Counter()
    chosen = select(events.c.type, events.c.job, events.c.slot, events.c.body)
    trained: Counter[tuple[str, int]] = Counter()
    over: set[str] = set()
    refunded: set[str] = set()
    kept: set[str] = set()
    for kind, job, _, body in connection.execute(chosen.order_by(events.c.seq)):
        if kind == "job.received":
            kept.add(job)
        elif kind == "job.decided":
            record = json.loads(body)
            decision = record["decision"]
            decided[job].append(decision["payment"] if decision["admitted"] else None)
            tokens[record["request"]["metadata"]["token"]] += 1
        elif kind == "job.trained":
            trained[job, json.loads(body)["slot"]] += 1
        elif kind in ("job.finished", "job.cancelled", "job.failed"):
            over.add(job)
            if kind == "job.failed" and json.loads(body)["refund"]:
                refunded.add(job)
    lost = (payments.keys() - decided.keys()) | (received - kept - decided.keys())
    faults += [f"acknowledged {job} is lost" for job in lost]
    faults += [f"{job} was decided {len(n)} times" for job, n in decided.items() if len(n) > 1]
    faults += [f"bid {token} was decided {n} times" for token, n in tokens.items() if n > 1]
    faults += [f"{slot} is on record {n} times" for slot, n in trained.items() if n > 1]
    faults += [
        f"{job} was answered {paid} and decided {decided[job][0]}"
        for job, paid in payments.items()
        if job in decided and decided[job][0] != paid
    ]
    admitted = {job: Decimal(n[0]) for job, n in decided.items() if n[0] is not None}
    faults += _check_ledger(connection, admitted, over, refunded)
    rows = set(connection.execute(select(jobs.c.id)).scalars())
    faults += [f"{job} has no row" for job in decided.keys() - rows]
    return len(admitted), len(trained), faults


def _check_ledger(
    connection: Connection, admitted: dict[str, Decimal], over: set[str], refunded: set[str]
) -> list[str]:
    faults = []
    by_event: Counter[int] = Counter()
    owed: defaultdict[str, list[int]] = defaultdict(list)
    held = 0
    for seq, job, account, amount in connection.execute(
        select(entries.c.seq, entries.c.job, entries.c.account, entries.c.amount)
    ):
        by_event[seq] += amount
        if account.startswith("user:"):
            owed[job].append(amount)
        if account == "held":
            held += amount
    faults += [f"entries of event {seq} sum to {n}" for seq, n in by_event.items() if n]
    for job, payment in admitted.items():
        steps = int(payment / _STEP)
        expected = [steps, -steps] if job in refunded else [steps]
        if [amount for amount in owed.pop(job, []) if amount] != [n for n in expected if n]:
            faults.append(f"{job} was not charged {payment} once")
    faults += [f"{job} was charged and never admitted" for job in owed]
    still = sum(int(paid / _STEP) for job, paid in admitted.items() if job not in over)
    if held != -still:
        faults.append(f"{-held} is held, and {still} is open")
    return faults
