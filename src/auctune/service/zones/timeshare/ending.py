"""How a job ends that has left the pool, once its adapter is packed."""

from typing import Any

from auctune.run.open_pool.how import How
from auctune.service.zones.event import Kind
from auctune.service.zones.timeshare.open_job import TargetJob
from auctune.service.zones.timeshare.zone import TimeshareZone


def end_job(zone: TimeshareZone, name: str, files: list[str]) -> bool:
    """End a job that left; false if it is over already.

    Args:
        zone: whose it is.
        name: its id.
        files: what came out of it; none: nothing.
    """
    job = zone.state.jobs.get(name)
    if job is None:
        return False
    assert job.left is not None
    if job.left.reason == How.REACHED and files:
        zone.record(Kind.FINISHED, name, {"files": files})
    else:
        zone.record(Kind.FAILED, name, {**_failure(job), "files": files})
    return True


def _failure(job: TargetJob) -> dict[str, Any]:
    assert job.left is not None
    how, param, refund = job.left.reason, None, False
    best = "" if job.best is None else f"; its best loss was {job.best:.6g}"
    if how == How.MISSED:
        code, param = "target_not_reached", "market.target_loss"
        message = f"target not reached by its deadline: {job.target_loss:g}{best}"
    elif how == How.SLOW:
        code, param = "step_too_long", "hyperparameters.batch_size"
        message = f"{job.left.why}, longer than a job may hold the pool{best}"
    elif how == How.ENDED:
        code, param = "cap_reached", "market.max_cost"
        message = f"its cost has reached max_cost before the target loss, {job.target_loss:g}{best}"
    else:
        # That what it learned cannot be handed out is no fault of its owner's.
        code, refund = "training_failed", True
        message = job.left.why or "what it has learned cannot be handed out"
    return {"code": code, "message": message, "param": param, "refund": refund}
