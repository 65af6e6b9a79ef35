"""Mailbox that one thread makes for others: in order, each once, and none waits for a later one."""

import threading
from functools import partial

from auctune.engine.runtime.mailbox import Mailbox

LONG = 60.0


def test_calls_are_made_in_order_once_with_those_they_lead_to() -> None:
    calls, made = Mailbox(), list[str]()
    calls.post(lambda: calls.post(partial(made.append, "led to")))
    for name in ("first", "second"):
        calls.post(partial(made.append, name))
    calls.run_pending()
    calls.run_pending()
    assert made == ["first", "second", "led to"]


def test_what_waits_is_woken_by_a_call_and_by_the_end() -> None:
    calls, made = Mailbox(), list[bool]()

    def work() -> None:
        while not calls.is_closed:
            calls.run_pending(LONG)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    has_come = threading.Event()
    calls.post(has_come.set)
    assert has_come.wait(LONG / 2)
    calls.close()
    thread.join(LONG / 2)
    assert not thread.is_alive()
    # What came too late for the thread's last look is still there for whoever clears up.
    calls.post(partial(made.append, True))
    calls.run_pending()
    assert made == [True]
