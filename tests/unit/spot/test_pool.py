import pytest

from auctune.spot import Ahanp, Ahap, Policy, UniformProgress, default_pool


def test_the_pool_is_the_paper_s_112() -> None:
    pool = default_pool()
    assert len(pool) == len(set(pool)) == len({policy.name for policy in pool}) == 112
    with_forecast = [policy for policy in pool if isinstance(policy, Ahap)]
    assert len(with_forecast) == 105
    assert all(isinstance(policy, Ahanp) for policy in pool[105:])
    assert {policy.window for policy in with_forecast} == {1, 2, 3, 4, 5}
    assert not any(policy.plan_always for policy in with_forecast)


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (UniformProgress(), "up"),
        (UniformProgress(0.5), "up(hysteresis=0.5)"),
        (Ahanp(0.3), "ahanp(sigma=0.3)"),
        (Ahanp(0.3, drop=0.2), "ahanp(sigma=0.3,drop=0.2)"),
        (Ahanp(0.3, shrink=0.7, growth=3), "ahanp(sigma=0.3,shrink=0.7,growth=3)"),
        (Ahap(3, 2, 0.5, plan_always=True), "ahap(w=3,c=2,sigma=0.5,plan_always)"),
        (Ahap(1, 1, 0.5, line="slot_start"), "ahap(w=1,c=1,sigma=0.5,line=slot_start)"),
        (Ahanp(0.3, line="slot_end"), "ahanp(sigma=0.3,line=slot_end)"),
    ],
)
def test_a_name_tells_policies_with_other_settings_apart(policy: Policy, name: str) -> None:
    assert policy.name == name
