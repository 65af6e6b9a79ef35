"""Base of startup tasks; apart from `ZoneKind`, as child processes import it as well."""

from types import TracebackType
from typing import Self

from auctune.engine.base_facts import Report


class StartupTask:
    """Work that runs while bases are measured, and ends with its context; here, none."""

    def wait(self, report: Report) -> None:
        """Block until the work is done, and report its progress."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
