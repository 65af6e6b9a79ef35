"""CPU seconds of tests: `pytest --durations=N` prints the N costliest tests and files too.

Those of a test are of its process, fixtures made for it and threads beside it included, and of
child processes that ended meanwhile; not of what the fork server has forked.
"""

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

_NAME = "cpu_seconds"


class CpuSeconds:
    """Plugin that measures each test where it runs, and prints sums where results are shown."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._by_test: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        item.user_properties.append((_NAME, -_cpu_seconds()))
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown":
            item.user_properties.append((_NAME, _cpu_seconds()))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            seconds = (float(str(value)) for name, value in report.user_properties if name == _NAME)
            self._by_test[report.nodeid] += sum(seconds)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        by_file: dict[str, float] = defaultdict(float)
        for test, seconds in self._by_test.items():
            by_file[test.partition("::")[0]] += seconds
        total = sum(by_file.values())
        terminalreporter.section(f"{total:.0f} CPU seconds in tests; the costliest")
        for costs in (by_file, self._by_test):
            for name in sorted(costs, key=costs.__getitem__, reverse=True)[: self._count]:
                terminalreporter.write_line(f"{costs[name]:8.2f}s {name}")


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
