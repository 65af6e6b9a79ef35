"""Alerts of budgets: recorded when 80% and 100% of one are reached, once each per period.

An alert is stored in the transaction of the payment or hold that reached it, and marked once its
webhooks were delivered. So a restart neither loses an alert nor raises it again.
"""

import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Engine

from auctune.domain import Money
from auctune.service.accounts.registry import Account
from auctune.service.storage.queries import read_values

PERCENTAGES = (80, 100)
_PREFIX = "budget-alert:"


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """A share of a budget was reached.

    Attributes:
        owner: `Account.key` of whose budget it is.
        percent: the share, one of `PERCENTAGES`.
        seq: number of the event that reached it.
        spent: what was spent then, in the last `seconds`, with amounts on hold.
        is_delivered: whether its webhooks were delivered, or dropped.
    """

    owner: str
    percent: int
    seq: int
    at: float
    spent: Money
    amount: Money
    seconds: float
    is_delivered: bool = False

    @property
    def id(self) -> str:
        """Id of the notification, the same at every attempt."""
        return f"evt-{self.seq}-{self.owner.partition(' ')[0]}-{self.percent}"

    @property
    def slot(self) -> tuple[str, int]:
        """What the newest alert is kept of: the owner and the share."""
        return self.owner, self.percent

    def row(self) -> dict[str, str]:
        """Return the row of the table `meta` that stores the alert."""
        name = f"{_PREFIX}{self.owner}:{self.percent}"
        return {"name": name, "value": _ADAPTER.dump_json(self).decode()}

    def view(self) -> dict[str, Any]:
        """Return the fields that the API shows."""
        shown = {"id": self.id, **asdict(self)}
        for name in ("seq", "is_delivered"):
            del shown[name]
        return {**shown, "at": int(self.at), "spent": str(self.spent), "amount": str(self.amount)}


_ADAPTER = TypeAdapter(BudgetAlert)


class BudgetAlerts:
    """The newest alert of each budget and share. Thread-safe."""

    def __init__(self, reader: Engine) -> None:
        self._lock = threading.Lock()
        stored = map(_ADAPTER.validate_json, read_values(reader, _PREFIX).values())
        self._newest = {alert.slot: alert for alert in stored}
        self._undelivered = {
            alert.id: alert for alert in self._newest.values() if not alert.is_delivered
        }

    def reach(self, account: Account, spent: Money, at: float, seq: int) -> list[BudgetAlert]:
        """Return the new alerts of an account that has spent so much; the caller stores them."""
        budget, found = account.budget, []
        assert budget is not None
        with self._lock:
            for percent in PERCENTAGES:
                is_reached = 100 * spent >= percent * budget.amount > 0
                if is_reached and self._current(account, percent, at) is None:
                    alert = BudgetAlert(
                        account.key, percent, seq, at, spent, budget.amount, budget.seconds
                    )
                    self._newest[alert.slot] = alert
                    found.append(alert)
        return found

    def of(self, accounts: Iterable[Account], now: float) -> list[BudgetAlert]:
        """Return the alerts of accounts' present budgets and periods."""
        with self._lock:
            found = [self._current(of, share, now) for of in accounts for share in PERCENTAGES]
        return [alert for alert in found if alert is not None]

    def _current(self, account: Account, percent: int, now: float) -> BudgetAlert | None:
        alert, budget = self._newest.get((account.key, percent)), account.budget
        if alert is None or budget is None:
            return None
        is_same_budget = (alert.amount, alert.seconds) == (budget.amount, budget.seconds)
        return alert if is_same_budget and alert.at > now - budget.seconds else None

    def committed(self, alerts: Iterable[BudgetAlert]) -> None:
        """Release alerts for delivery, as they are stored now."""
        with self._lock:
            self._undelivered.update({alert.id: alert for alert in alerts})

    def undelivered(self) -> list[BudgetAlert]:
        with self._lock:
            return list(self._undelivered.values())

    def delivered(self, alert: BudgetAlert) -> BudgetAlert | None:
        """Mark an alert as delivered; return what to store, or None if a newer one replaced it."""
        with self._lock:
            self._undelivered.pop(alert.id, None)
            if self._newest.get(alert.slot) != alert:
                return None
            marked = self._newest[alert.slot] = replace(alert, is_delivered=True)
            return marked
