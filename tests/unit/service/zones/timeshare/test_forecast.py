"""What a job with a loss target is said to come to: honest where little is known."""

from dataclasses import replace
from decimal import Decimal

import pytest
from pydantic import TypeAdapter

from auctune.service.zones.timeshare.gateway import (
    CompetingJob,
    ForecastData,
    ForecastRequest,
    PoolPricing,
    batches_to_target,
    forecast,
)
from auctune.service.zones.timeshare.state import MAX_POINTS, CompletedJob, Features, LossCurve

LIKE = Features(rows=100, mean_tokens=50.0, learning_rate=1e-3, rank=8, batch_size=8)
TERMS = PoolPricing(Decimal("0.01"), epoch=0.0, unit_seconds=10.0)
QUESTION = ForecastRequest("ada", LIKE, target_loss=0.5, cap=None, first_unit=10, deadline_unit=110)
NOTHING = ForecastData((), ())


def curve(batches: int = 400, every: int = 10, seconds: float = 0.5) -> LossCurve:
    """The loss 3 s^-0.3, half a second a batch; it comes to 0.5 after 392 batches."""
    made = LossCurve()
    for end in range(every, batches + 1, every):
        made.add(every, 3.0 * (end - every / 2) ** -0.3, every * seconds)
    return made


def past(features: Features = LIKE, batches: int = 600, owner: str = "ada") -> CompletedJob:
    return CompletedJob("past", owner, features, curve(batches))


def test_a_zone_that_has_seen_nothing_says_so() -> None:
    found = forecast(QUESTION, TERMS, NOTHING)
    assert found.success_probability == found.risk == 0.5
    # The pool has 1,000 s: it may take them all.
    assert found.p90_cost == Decimal("10.0000")
    assert found.finish_p90 == 1100.0
    assert found.expected_cost == Decimal("7.5000")


def test_what_was_seen_of_jobs_alike_narrows_it() -> None:
    blank = forecast(QUESTION, TERMS, NOTHING)
    evidence = ForecastData(tuple(past() for _ in range(9)), ())
    found = forecast(QUESTION, TERMS, evidence)
    assert found.success_probability == pytest.approx(0.95)
    # 400 batches of half a second are 200 s of 1,000.
    assert float(found.p90_cost) == pytest.approx(2.0, rel=0.1)
    assert found.finish_p90 == pytest.approx(100 + 200, rel=0.1)
    assert found.expected_cost < blank.expected_cost
    unlike = replace(LIKE, rows=100 * 50, learning_rate=1e-1)
    far = forecast(QUESTION, TERMS, ForecastData(tuple(past(unlike) for _ in range(9)), ()))
    assert far.success_probability == pytest.approx(0.5, abs=0.01)


def test_jobs_of_another_method_narrow_nothing() -> None:
    pairs = replace(LIKE, method="dpo")
    evidence = ForecastData(tuple(past(pairs) for _ in range(9)), ())
    assert forecast(QUESTION, TERMS, evidence) == forecast(QUESTION, TERMS, NOTHING)


@pytest.mark.parametrize("features", [LIKE, replace(LIKE, method="dpo", has_start=True)])
def test_what_jobs_are_alike_by_survives_a_snapshot(features: Features) -> None:
    kept = TypeAdapter(Features)
    saved = kept.dump_python(features, mode="json")
    assert kept.validate_python(saved) == features
    # As an earlier release wrote it.
    assert (features is LIKE) == (
        saved.keys() == {"rows", "mean_tokens", "learning_rate", "rank", "batch_size"}
    )


@pytest.mark.parametrize("by", ["time", "cap", "competing", "loss"])
def test_a_job_that_does_not_fit_is_said_to_fail(by: str) -> None:
    evidence = ForecastData(tuple(past() for _ in range(9)), ())
    changed = {
        "time": replace(QUESTION, deadline_unit=25),
        "cap": replace(QUESTION, cap=Decimal("1.5")),
        "competing": QUESTION,
        "loss": replace(QUESTION, target_loss=0.05),
    }
    if by == "competing":
        # Two that have just begun are taken to need an even part each; these have shown more.
        slow = curve(100, seconds=3.0)
        evidence = replace(
            evidence, competing=tuple(CompetingJob(100, 0.5, slow, Decimal(100)) for _ in range(5))
        )
    found = forecast(changed[by], TERMS, evidence)
    assert found.success_probability is not None
    assert found.success_probability < 0.15
    assert changed[by].cap is None or found.p90_cost <= Decimal("1.5")


def test_competing_jobs_that_are_due_later_or_out_of_reach_take_nothing() -> None:
    evidence = ForecastData(tuple(past() for _ in range(9)), ())
    alone = forecast(QUESTION, TERMS, evidence)
    competing = (
        CompetingJob(120, 0.5, curve(100), Decimal(100)),
        CompetingJob(100, 1e-30, curve(100), Decimal(100)),
    )
    assert forecast(QUESTION, TERMS, replace(evidence, competing=competing)) == alone


def test_one_owner_cannot_talk_others_out_of_the_pool() -> None:
    evidence = ForecastData(tuple(past() for _ in range(9)), ())
    alone = forecast(QUESTION, TERMS, evidence).success_probability
    assert alone is not None
    # Twenty open jobs that may cost next to nothing take next to nothing.
    poor = replace(
        evidence,
        competing=tuple(CompetingJob(20, 0.5, LossCurve(), Decimal("0.01")) for _ in "x" * 20),
    )
    assert forecast(QUESTION, TERMS, poor).success_probability == alone
    # However many jobs of one other owner failed, they count as one.
    flat = LossCurve([(10 * n, 3.0, 5.0) for n in range(1, 40)])
    for count in (1, 40):
        failed = tuple(CompletedJob("bad", "eve", LIKE, flat) for _ in range(count))
        spoiled = forecast(QUESTION, TERMS, replace(evidence, history=evidence.history + failed))
        assert spoiled.success_probability == pytest.approx(10 * alone / 11)


def test_a_curve_says_what_it_saw_or_what_it_foretells() -> None:
    assert batches_to_target(curve(600), 0.5) == (400.0, 400.0, 400.0)
    low, middle, high = batches_to_target(curve(200), 0.5)
    assert low <= middle <= high
    assert middle == pytest.approx(392, rel=0.15)


def test_a_long_curve_takes_little_room_and_keeps_its_sums() -> None:
    made = LossCurve()
    total, seconds = 0.0, 0.0
    for unit in range(1000):
        batches, loss = 1 + unit % 5, 1.0 + unit % 7
        made.add(batches, loss, 0.25)
        total, seconds = total + batches * loss, seconds + 0.25
    assert len(made.points) <= MAX_POINTS
    ends = [0, *(end for end, _, _ in made.points)]
    sums = [(end - begin) * loss for begin, (end, loss, _) in zip(ends, made.points, strict=False)]
    assert sum(sums) == pytest.approx(total)
    assert made.seconds == pytest.approx(seconds)
    assert made.points[-1][1] == 1.0 + 999 % 7
