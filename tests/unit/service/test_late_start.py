"""A zone whose log ends in the future is started once the clock has reached it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auctune.service import service
from auctune.service.service import ServiceRuntime
from auctune.service.submissions import FutureLogs


class Started:
    """Workers, gateways and the rest of a service: what is started, in its order."""

    def __init__(self, name: str, order: list[str], error: Exception | None = None) -> None:
        self._name, self._order, self._error = name, order, error

    def start(self) -> Any:
        return self._begin()

    async def decide_pending(self) -> None:
        self._order.append(f"{self._name} decides")

    async def resume(self) -> None: ...

    async def _begin(self) -> None:
        self._order.append(f"{self._name} starts")
        if self._error is not None:
            raise self._error


def test_zones_are_started_when_their_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_CHECK_SECONDS", 0.0)
    order: list[str] = []
    fatal: list[Exception] = []
    time, broken = [1_000.0], OSError("it cannot be started")
    names = ("late", "right", "broken")
    errors = {"broken": broken}
    others = SimpleNamespace(start=lambda: None)
    made = SimpleNamespace(
        future_logs=FutureLogs(
            {"late": 2_000.0, "right": 999.0, "broken": 3_000.0}, lambda: time[0]
        ),
        zones={name: Started(name, order) for name in names},
        webhooks=others,
        wandb=others,
        submissions=Started("submissions", order),
        now=lambda: time[0],
        files=SimpleNamespace(trash=SimpleNamespace(purge=lambda: None)),
        lifecycle=SimpleNamespace(run=lambda seconds, reason: asyncio.sleep(0)),
        storage=SimpleNamespace(run=lambda seconds, reason: asyncio.sleep(0)),
        unready_reason=None,
        idempotency=SimpleNamespace(prune=lambda committer: asyncio.sleep(0)),
    )
    workers = {name: Started(name, order, errors.get(name)) for name in names}
    none = cast(Any, None)
    runtime = ServiceRuntime(
        cast(Any, made),
        cast(Any, workers),
        cast(Any, SimpleNamespace(prepare=lambda base: order.append(f"{base} is prepared"))),
        ["base"],
        none,
        none,
        on_fatal_error=fatal.append,
    )

    async def run() -> None:
        await runtime.start()
        # Bases last: readiness does not wait for what they take of the machine.
        assert order == ["right decides", "right starts", "base is prepared"]
        for now, number in ((1_999.0, 3), (2_000.0, 5), (3_000.0, 7)):
            time[0] = now
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(order) == number
        await runtime._tasks.close()

    asyncio.run(run())
    assert order[3:] == ["late decides", "late starts", "broken decides", "broken starts"]
    assert fatal == [broken]
