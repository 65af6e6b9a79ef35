"""What charts show is what the API said."""

from typing import Any

from auctune.service.page.charts import (
    losses_of,
    menu_of,
    money_over_time,
    plan_of_job,
    plan_of_zone,
    zone_maps,
)

PRICES = {
    "first_slot": 10,
    "first_begins_at": 1000.0,
    "slot_seconds": 60.0,
    "nodes": [{"id": "a"}, {"id": "b"}],
    "compute_price": [[0.0, 0.0]] * 5,
}


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
    figure = plan_of_zone(plans, PRICES)
    assert figure is not None
    assert figure.data["rows"] == [
        {"task": "ftjob-early", "arrival": 0, "deadline": 0, "cells": [[0, "a"]]},
        {"task": "ftjob-late", "arrival": 0, "deadline": 3, "cells": [[2, "a"], [3, "a"]]},
    ]
    assert plan_of_zone(plans[2:], PRICES) is None


def test_a_jobs_plan_runs_from_its_first_slot_to_its_deadline() -> None:
    zone = {"slot": 3, "slot_seconds": 60.0, "slot_ends_at": 1240.0}
    plan = {"cells": [{"slot": 4, "node": "b"}, {"slot": 6, "node": "a"}]}
    # Slot 0 began at 1000; the deadline is the end of slot 8.
    figure = plan_of_job(job(plan=plan, deadline=1540.0), zone)
    assert figure is not None
    assert figure.data["slots"] == 5
    assert figure.data["rows"][0]["cells"] == [[0, "b"], [2, "a"]]
    assert figure.data["rows"][0]["deadline"] == 4
    assert plan_of_job(job(plan=None), zone) is None


def test_losses_are_by_rows_and_in_the_order_in_which_they_came() -> None:
    metrics = [
        {"rows": 40, "step": 5, "losses": [[1, 3.0], [5, 2.0]], "validation": []},
        {"rows": 80, "step": 10, "losses": [[10, None]], "validation": [[1, 80, 1.5]]},
    ]
    figure = losses_of(job(target={"target_loss": 1.0}), metrics)
    assert figure is not None
    assert figure.data["training"] == [[8, 3.0], [40, 2.0]]
    assert figure.data["validation"] == [[80, 1.5]]
    assert figure.data["threshold"] == 1.0
    assert losses_of(job(), []) is None
    assert losses_of(job(), [{**metrics[0], "losses": [[1, 3.0]]}]) is None


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


def test_price_maps_know_how_much_is_sold() -> None:
    used = [[0.0, 0.5]] * 5
    prices = {**PRICES, "memory_price": [[0.0, 0.0]] * 5}
    maps = zone_maps({**prices, "compute_used": used, "memory_used": [[0.0, 0.0]] * 5})
    assert maps["compute_price"].data["busiest"] == 0.5
    assert maps["memory_price"].data["busiest"] == 0.0
