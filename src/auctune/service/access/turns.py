"""One after the other: bids that are paid from one budget, in whatever zones they are made."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """Locks by name, each there only while somebody has or wants it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, names: Iterable[str]) -> AsyncIterator[None]:
        """A turn of all these."""
        async with AsyncExitStack() as stack:
            # In one order everywhere, so that no two wait for each other.
            for name in sorted(names):
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield
