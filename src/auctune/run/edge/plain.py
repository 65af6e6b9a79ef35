"""Jobs, plans and answers of the edge as plain JSON values, and back, without loss."""

from typing import Any

from auctune.domain import Money, Reason
from auctune.edge.decision import EdgeDecision, EdgePlan
from auctune.edge.job import EdgeJob
from auctune.sim.edge.decision_file import parse_slots, slots_json
from auctune.sim.edge.instance_file import edge_job_json, parse_edge_job

Record = dict[str, Any]


def job_record(job: EdgeJob) -> Record:
    """All fields of a job."""
    return edge_job_json(job)


def read_job(record: Record) -> EdgeJob:
    """The job that `job_record` wrote."""
    return parse_edge_job(record)


def plan_record(plan: EdgePlan) -> list[Record]:
    """The slots of a plan."""
    return slots_json(plan)


def read_plan(records: list[Record]) -> EdgePlan:
    """The plan that `plan_record` wrote."""
    return EdgePlan(parse_slots(records))


def decision_record(decision: EdgeDecision) -> Record:
    """All fields of an answer; money as text."""
    return {
        "job": decision.job,
        "admitted": decision.admitted,
        "payment": str(decision.payment),
        "plan": None if decision.plan is None else plan_record(decision.plan),
        "utility": decision.utility,
        "surplus": decision.surplus,
        "reason": decision.reason,
    }


def read_decision(record: Record) -> EdgeDecision:
    """The answer that `decision_record` wrote."""
    return EdgeDecision(
        record["job"],
        admitted=record["admitted"],
        payment=Money(record["payment"]),
        plan=None if record["plan"] is None else read_plan(record["plan"]),
        utility=record["utility"],
        surplus=record["surplus"],
        reason=None if record["reason"] is None else Reason(record["reason"]),
    )
