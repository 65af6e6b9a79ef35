"""Records of observations."""

from auctune.engine.spot.state import read_observation, to_record
from auctune.spot import IDLE, Robust, SpotJob, SpotObservation
from auctune.spot.forecasts import MarkovChain
from auctune.spot.forecasts.forecast import same_chain
from support.spot_files import daily_market


def test_a_policy_answers_to_a_recorded_observation_as_it_did() -> None:
    market = daily_market(200)
    job = SpotJob(workload=12.0, deadline=10, n_max=6)
    forecast = MarkovChain().forecast(market, 9)
    assert forecast.chain is not None
    seen = SpotObservation(0, 0.4, 0, 0, 1.0, 0.0, 0.0, IDLE, forecast)
    again = read_observation(to_record(seen))
    assert again.forecast is not None
    assert same_chain(forecast.chain, again.forecast.chain)
    answer = Robust().start(job).allocate(seen)
    assert Robust().start(job).allocate(again) == answer


def test_a_chain_of_a_log_before_there_was_a_worst_market_is_read() -> None:
    forecast = MarkovChain().forecast(daily_market(200), 9)
    assert forecast.chain is not None
    seen = SpotObservation(0, 0.4, 0, 0, 1.0, 0.0, 0.0, IDLE, forecast)
    record = to_record(seen)
    record["forecast"]["chain"] = record["forecast"]["chain"][:4]
    again = read_observation(record)
    assert again.forecast is not None
    assert again.forecast.chain is not None
    assert again.forecast.chain.worst is None
    assert (again.forecast.chain.transition == forecast.chain.transition).all()
