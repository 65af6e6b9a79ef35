"""Records of observations."""

import numpy as np

from auctune.engine.spot.state import read_observation, to_record
from auctune.spot import IDLE, Robust, SpotJob, SpotMarket, SpotObservation
from auctune.spot.forecasts import MarkovChain


def test_a_policy_answers_to_a_recorded_observation_as_it_did() -> None:
    slots = np.arange(200)
    market = SpotMarket(0.25 + 0.05 * (slots % 4), np.where(slots % 12 < 6, 5, 0), slot_seconds=600)
    job = SpotJob(workload=12.0, deadline=10, n_max=6)
    forecast = MarkovChain().forecast(market, 9)
    assert forecast.chain is not None
    seen = SpotObservation(0, 0.4, 0, 0, 1.0, 0.0, 0.0, IDLE, forecast)
    again = read_observation(to_record(seen))
    assert again.forecast is not None
    assert again.forecast.chain is not None
    for recorded, given in zip(again.forecast.chain, forecast.chain, strict=True):
        assert np.array_equal(recorded, given)
    answer = Robust().start(job).allocate(seen)
    assert Robust().start(job).allocate(again) == answer
