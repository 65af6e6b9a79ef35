"""How a baseline's jobs are counted.

A baseline has no prices of its own: its jobs are charged what their slots cost at the prices of
eq. 6, but no more than they are worth.
"""

from auctune.domain import Reason, round_money
from auctune.edge.baselines.crew import Underway
from auctune.edge.decision import EdgeDecision


def outcome(one: Underway | None, job_id: str) -> EdgeDecision:
    """The decision on a job, in hindsight: rejected if it did not finish."""
    if one is None or not one.is_done:
        return EdgeDecision(job_id, admitted=False, reason=Reason.NO_CAPACITY)
    utility = one.job.value(one.plan.finish)
    payment = round_money(min(one.cost, utility))
    return EdgeDecision(
        job_id,
        admitted=True,
        payment=payment,
        plan=one.plan,
        utility=utility,
        surplus=utility - float(payment),
    )
