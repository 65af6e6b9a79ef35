"""What the benchmark of tenants makes of latencies."""

import math
from collections.abc import Mapping, Sequence
from typing import cast

import httpx2
import pytest

from tenant_load import ALL, ANSWER, LOADS, HonestUser, User
from tenants import Comparison, percentile, summarize

HUNDRED = [number / 100 for number in range(1, 101)]


def user_with(latencies: Mapping[str, Sequence[float]]) -> HonestUser:
    found = HonestUser(cast(User, None))
    for name, seconds in latencies.items():
        found.latencies[name].extend(seconds)
    return found


@pytest.mark.parametrize(("share", "expected"), [(0.5, 0.5), (0.95, 0.95), (0.99, 0.99)])
def test_a_percentile_is_the_least_latency_that_this_share_does_not_exceed(
    share: float, expected: float
) -> None:
    assert percentile(HUNDRED[::-1], share) == expected


def test_a_percentile_of_one_latency_is_this_one_and_of_none_infinite() -> None:
    assert percentile([0.3], 0.95) == 0.3
    assert percentile([], 0.95) == math.inf


def test_the_ratio_is_of_all_turns_together_and_each_turn_has_its_own() -> None:
    alone = [user_with({"bid": HUNDRED}), user_with({"bid": HUNDRED})]
    beside = [
        user_with({"bid": [2 * one for one in HUNDRED]}),
        user_with({"bid": [4 * one for one in HUNDRED]}),
    ]
    row = summarize("jobs", Comparison(alone, beside))[0]
    # Of the two hundred latencies beside the load, ten are above 3.6 s.
    assert (row["request"], row["alone_p95"], row["beside_p95"]) == ("bid", 0.95, 3.6)
    assert row["ratio"] == pytest.approx(3.6 / 0.95)
    assert row["ratios"] == pytest.approx([2, 4])
    assert row["goal"] == 2.0


def test_answers_have_a_goal_beside_other_answers_alone() -> None:
    goals = {
        load: next(row for row in summarize(load, Comparison()) if row["request"] == ANSWER)["goal"]
        for load in [ALL, *LOADS]
    }
    assert {load: goal for load, goal in goals.items() if goal} == {
        ALL: 5.0,
        "streams": 3.0,
        "n16": 5.0,
    }


def test_a_wrong_response_is_a_failure_and_has_no_latency() -> None:
    found = HonestUser(cast(User, None))
    wrong = httpx2.Response(200, json={"lines": []})
    refused = httpx2.Response(429, json={"error": {}})
    right = httpx2.Response(200, json={"lines": [1]})
    for response in (wrong, refused, right):
        found.add("quote", 0.0, response, lambda body: bool(body["lines"]))
    assert len(found.latencies["quote"]) == 1
    assert found.failures.total() == 2
