"""Alerts of budgets: each share once a period, however payments come."""

import asyncio
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.service.accounts.budgets import PERCENTAGES, BudgetAlert, BudgetAlerts
from auctune.service.accounts.registry import Account, Budget
from auctune.service.storage import Store, WriteBatch, tables
from auctune.service.storage.committer import Committer, durable

pytest_plugins = ["support.store_fixtures"]

PERIOD = 10.0
ADA = Account("ada", "user", 0.0, None, Budget(Decimal(100), PERIOD))
# Seconds since the payment before, and what is spent then.
PAYMENTS = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 4.0, 11.0]), st.integers(0, 120)))


@pytest.mark.slow
@given(payments=PAYMENTS)
def test_a_share_is_reported_when_it_is_reached_and_once_a_period(
    store: Store, payments: list[tuple[float, int]]
) -> None:
    alerts, now = BudgetAlerts(store.reader), 0.0
    last: dict[int, float] = {}
    for seq, (wait, spent) in enumerate(payments):
        now += wait
        found = {one.percent for one in alerts.reach(ADA, Decimal(spent), now, seq)}
        due = {one for one in PERCENTAGES if last.get(one, -PERIOD) <= now - PERIOD}
        assert found == {one for one in due if spent >= one}
        last |= dict.fromkeys(found, now)


def test_an_alert_is_kept_with_whether_it_was_delivered(store: Store, committer: Committer) -> None:
    first = BudgetAlerts(store.reader)
    (alert,) = first.reach(ADA, Decimal("80.5"), 1.0, 7)

    def written(one: BudgetAlert) -> BudgetAlerts:
        asyncio.run(durable(committer, WriteBatch().upsert(tables.meta, one.row())))
        return BudgetAlerts(store.reader)

    again = written(alert)
    assert again.undelivered() == [alert]
    assert again.reach(ADA, Decimal(81), 2.0, 8) == []
    marked = again.delivered(alert)
    assert marked is not None
    assert written(marked).undelivered() == []


def test_delivery_of_an_old_alert_leaves_a_newer_one_as_it_is(store: Store) -> None:
    alerts = BudgetAlerts(store.reader)
    (old,) = alerts.reach(ADA, Decimal(80), 1.0, 7)
    (new,) = alerts.reach(ADA, Decimal(80), 1.0 + PERIOD, 9)
    alerts.committed([old, new])
    assert alerts.delivered(old) is None
    assert alerts.undelivered() == [new]


def test_alerts_of_an_earlier_period_or_budget_are_not_shown(store: Store) -> None:
    alerts = BudgetAlerts(store.reader)
    (alert,) = alerts.reach(ADA, Decimal(80), 1.0, 7)
    assert alerts.of([ADA], 5.0) == [alert]
    assert alerts.of([ADA], 1.0 + PERIOD) == []
    changed = Account("ada", "user", 0.0, None, Budget(Decimal(101), PERIOD))
    assert alerts.of([changed], 5.0) == []
