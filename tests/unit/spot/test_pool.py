from auctune.spot import Ahanp, Ahap, default_pool


def test_the_pool_is_the_paper_s_112() -> None:
    pool = default_pool()
    assert len(pool) == len(set(pool)) == len({policy.name for policy in pool}) == 112
    with_forecast = [policy for policy in pool if isinstance(policy, Ahap)]
    assert len(with_forecast) == 105
    assert all(isinstance(policy, Ahanp) for policy in pool[105:])
    assert {policy.window for policy in with_forecast} == {1, 2, 3, 4, 5}
    assert not any(policy.plan_always for policy in with_forecast)
