"""Data of the page's charts."""

from typing import Any

from auctune.service.page.charts import (
    choices_of,
    job_names,
    losses_of,
    menu_of,
    metered_of,
    money_over_time,
    plan_of_job,
    plan_of_zone,
    spread_of,
    targets_of,
)
from auctune.service.page.templates import most, paid

# The current slot began at 1000.
MARKET = {"slot": 10, "slots": 5, "slot_seconds": 60.0, "slot_ends_at": 1060.0}


def planned(job: str, created_at: float, *slots: int) -> dict[str, Any]:
    cells = [{"slot": slot, "node": "a"} for slot in slots]
    return {"job": job, "created_at": created_at, "plan": {"cells": cells} if cells else None}


def job(**market: Any) -> dict[str, Any]:
    return {"id": "ftjob-abcdefgh", "metadata": None, "market": market}


def test_a_zones_plan_begins_with_the_current_slot() -> None:
    plans = [
        planned("ftjob-late", 1000.0, 12, 13),
        planned("ftjob-early", 100.0, 8, 9, 10),
        planned("ftjob-past", 100.0, 8, 9),
        planned("ftjob-far", 100.0, 15),
        planned("ftjob-none", 100.0),
    ]
    figure = plan_of_zone(plans, MARKET, ["a", "b"])
    assert figure is not None
    assert figure.data["nodes"] == ["a", "b"]
    assert figure.data["times"] == {"start": 1000.0, "seconds": 60.0}
    assert figure.data["rows"] == [
        {"task": "ftjob-early", "arrival": 0, "deadline": 0, "cells": [[0, "a"]]},
        {"task": "ftjob-late", "arrival": 0, "deadline": 3, "cells": [[2, "a"], [3, "a"]]},
    ]
    assert plan_of_zone(plans[2:], MARKET, ["a"]) is None


def test_a_jobs_plan_runs_from_its_first_slot_to_its_deadline() -> None:
    zone = {"slot": 3, "slot_seconds": 60.0, "slot_ends_at": 1240.0}
    plan = {"start": 1240.0, "cells": [{"slot": 4, "node": "b"}, {"slot": 6, "node": "a"}]}
    # Slot 0 began at 1000; the deadline is the end of slot 8.
    figure = plan_of_job(job(plan=plan, deadline=1540.0), zone)
    assert figure is not None
    assert figure.data["slots"] == 5
    assert figure.data["rows"][0]["cells"] == [[0, "b"], [2, "a"]]
    assert figure.data["rows"][0]["deadline"] == 4
    assert figure.data["times"] == {"start": 1240.0, "seconds": 60.0}
    assert plan_of_job(job(plan=None), zone) is None


def step_of(step: int, train: float | None, valid: float | None = None) -> dict[str, Any]:
    return {"step": step, "train_loss": train, "valid_loss": valid}


def test_losses_are_by_rows_and_in_the_order_in_which_they_came() -> None:
    metrics = [
        {"rows": 40, "step": 5, "steps": [step_of(1, 3.0), step_of(5, 2.0)]},
        {"rows": 80, "step": 10, "steps": [step_of(10, None, 1.5)]},
    ]
    figure = losses_of(job(target={"target_loss": 1.0}), metrics)
    assert figure is not None
    (curve,) = figure.data["curves"]
    assert curve["training"] == [[8, 3.0], [40, 2.0]]
    assert curve["validation"] == [[80, 1.5]]
    assert curve["threshold"] == 1.0
    assert losses_of(job(), []) is None
    assert losses_of(job(), [{**metrics[0], "steps": [step_of(1, 3.0)]}]) is None


def test_a_menu_needs_two_lines_with_a_price_and_a_time() -> None:
    line = {"line": 0, "price": "3.50", "finish": 160.0}
    quote = {"created_at": 100, "lines": [line, {"line": 1, "price": "2.00", "finish": 400.0}]}
    figure = menu_of(quote)
    assert figure is not None
    assert [(one["seconds"], one["price"]) for one in figure.data["points"]] == [
        (60.0, 3.5),
        (300.0, 2.0),
    ]
    assert menu_of({**quote, "lines": [line, {"line": 1, "price_per_second": "0.1"}]}) is None


def test_money_adds_up_over_time_without_what_was_refunded() -> None:
    history = {
        "since": 1000,
        "step_seconds": 60,
        "spans": 3,
        "accounts": {
            "revenue": ["0", "-2.50", "-1.50"],
            "cost:energy": ["0.25", "0", "0"],
            "cost:vendors": ["0", "0.25", "0"],
            "held": ["-9", "0", "0"],
        },
    }
    decided: list[dict[str, Any]] = [
        {"created_at": 1010, "value": 5.0, "refunded": False, "metered": None},
        {"created_at": 1130, "value": 7.0, "refunded": False, "metered": None},
        {"created_at": 1130, "value": 9.0, "refunded": True, "metered": None},
        {"created_at": 1130, "value": None, "refunded": False, "metered": None},
        {"created_at": 900, "value": 100.0, "refunded": False, "metered": None},
        # Metered: done and worth something, worth nobody knows what, refunded.
        {"created_at": 1070, "refunded": False, "metered": {"value": "4.5000", "cost": "1.2500"}},
        {"created_at": 1070, "refunded": False, "metered": {"value": None, "cost": "1.0000"}},
        {"created_at": 1070, "refunded": True, "metered": {"value": "9.0000", "cost": "1.0000"}},
    ]
    figure = money_over_time(history, decided)
    assert figure is not None
    drawn = {one["name"]: one["y"] for one in figure.data["panels"][0]["curves"]}
    assert drawn == {
        "welfare": [5.0, 8.25, 15.25],
        "revenue": [0.0, 2.5, 4.0],
        "costs": [0.25, 0.5, 0.5],
    }
    nothing = {**history, "accounts": {}}
    assert money_over_time(nothing, []) is None


def said(zone: str, cost: str | None, finish: float = 160.0) -> dict[str, Any]:
    able = cost is not None
    return {
        "zone": zone,
        "kind": "spot",
        "cost": cost,
        "finish": finish if able else None,
        "risk": 0.1 if able else None,
        "unavailable_reason": None if able else "full",
    }


def test_an_estimate_is_spread_over_cost_and_time_with_its_owner_s_limits() -> None:
    found = {"expected_cost": "2.0000", "p90_cost": "3.0000", "cap": "5.0000"}
    estimate = {**found, "finish": 400.0, "finish_p90": 700.0}
    figure = spread_of({"estimate": estimate, "created_at": 100}, 1000.0)
    cost, time = figure.data["spreads"]
    assert (cost["expected"], cost["p90"], cost["limit"]) == (2.0, 3.0, 5.0)
    assert (time["expected"], time["p90"], time["limit"]) == (5.0, 10.0, 15.0)
    assert time["title"].startswith("minutes")
    free = spread_of({"estimate": {**estimate, "cap": None}, "created_at": 100}, None)
    assert [one["limit"] for one in free.data["spreads"]] == [None, None]


def test_zones_are_compared_where_two_can_have_the_job() -> None:
    zones = [said("a", "2.0000"), said("b", None), said("c", "1.0000", 400.0)]
    figure = choices_of(zones, "c", 100)
    assert figure is not None
    assert [(one["name"], one["seconds"], one["is_chosen"]) for one in figure.data["points"]] == [
        ("a", 60.0, False),
        ("c", 300.0, True),
    ]
    assert choices_of(zones[:2], "a", 100) is None


ZONE = {"slot": 9, "slot_seconds": 60.0, "slot_ends_at": 1600.0}


def metered(cost: str = "3.7500") -> dict[str, Any]:
    return {"market": {"metered": {"cost": cost, "max_cost": "10.0000"}}}


def event(**data: Any) -> dict[str, Any]:
    return {"data": data or None}


def test_a_jobs_cost_adds_up_slot_by_slot_with_what_it_held() -> None:
    first = {"amount": "1.5000", "at": 7, "on_demand": 1, "spot": 2}
    last = {"amount": "2.2500", "at": 9, "on_demand": 0, "spot": 3}
    events = [event(**last), event(kind="x"), event(), event(**first)]
    figure = metered_of(metered(), events, ZONE)
    assert figure is not None
    assert figure.data["costs"] == [[0, 1.5], [2, 3.75]]
    assert [one["amounts"]["spot"] for one in figure.data["slots"]] == [2, 3]
    assert (figure.data["cap"], figure.data["is_share"]) == (10.0, False)
    assert figure.data["times"] == {"start": 1420.0, "seconds": 60.0}
    # What is no longer listed has cost something all the same.
    later = metered_of(metered("9.7500"), [event(**last)], ZONE)
    assert later is not None
    assert later.data["costs"] == [[0, 9.75]]
    assert metered_of(metered(), [event(kind="x")], ZONE) is None


def test_a_job_on_a_pool_shows_its_share() -> None:
    events = [event(amount="3.7500", unit=4, share=0.25, seconds=9.0)]
    figure = metered_of(metered(), events, ZONE)
    assert figure is not None
    assert figure.data["slots"] == [{"slot": 0, "amounts": {"share": 0.25}}]


def test_jobs_are_called_by_names_that_differ() -> None:
    shown: list[dict[str, Any]] = [
        {"job": "ftjob-aaaaaaaa", "name": "weather"},
        {"job": "ftjob-bbbbbbbb", "name": "weather"},
        {"job": "ftjob-cccccccc", "name": "garden"},
        {"job": "ftjob-dddddddd", "name": None},
    ]
    names = job_names(shown)
    assert list(names.values()) == [
        "weather (ftjob-aaaaaa)",
        "weather (ftjob-bbbbbb)",
        "garden",
        "ftjob-dddddd",
    ]


def test_curves_of_two_points_and_more_stand_against_their_targets() -> None:
    target = {"target_loss": 0.5, "curve": [[4, 2.0], [8, 1.0]]}
    decided: list[Any] = [{"job": "ftjob-a", "target": target}, {"job": "ftjob-b", "target": None}]
    figure = targets_of(decided, {"ftjob-a": "weather"})
    assert figure is not None
    assert figure.data["curves"] == [
        {"task": "weather", "training": target["curve"], "threshold": 0.5}
    ]
    assert targets_of(decided[1:], {}) is None


def test_what_a_job_pays_is_its_price_or_what_it_has_cost() -> None:
    priced = {"decision": "admitted", "payment": "4.0000", "bid": "9.0000", "metered": None}
    assert (paid(priced), most(priced)) == ("4.0000", "9.0000")
    used = {**priced, "payment": None, "bid": None, "metered": {"cost": "1", "max_cost": "2"}}
    assert (paid(used), most(used)) == ("1", "2")
    assert paid({**used, "decision": "rejected"}) is None
