"""Jobs, plans, decisions and requests for slots as JSON values, and back, without loss.

A plan is the list of its slots.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from auctune.edge.decision import EdgeDecision, EdgePlan, SlotPlan
from auctune.edge.job import EdgeJob
from auctune.engine.edge.inputs import EdgeTraining
from auctune.sim.edge.instance_file import edge_job_json, parse_edge_job

Record = dict[str, Any]

_PLAN = TypeAdapter(EdgePlan)
_DECISION = TypeAdapter(EdgeDecision)


def read_job(record: Record) -> EdgeJob:
    """Return a job from JSON values."""
    return parse_edge_job(record)


def plan_record(plan: EdgePlan) -> list[Record]:
    """Return the slots of a plan as JSON values."""
    slots: list[Record] = _PLAN.dump_python(plan, mode="json")["slots"]
    return slots


def read_plan(records: list[Record]) -> EdgePlan:
    """Return the plan that `plan_record` wrote."""
    return _PLAN.validate_python({"slots": records})


def decision_record(decision: EdgeDecision) -> Record:
    """Return all fields of a decision as JSON values; money is text."""
    record: Record = _DECISION.dump_python(decision, mode="json")
    return record | {"plan": decision.plan and plan_record(decision.plan)}


def read_decision(record: Record) -> EdgeDecision:
    """Return the decision that `decision_record` wrote."""
    plan = record["plan"]
    return _DECISION.validate_python(record | {"plan": None if plan is None else {"slots": plan}})


# Types of fields, for pydantic.
JobField = Annotated[EdgeJob, PlainValidator(parse_edge_job), PlainSerializer(edge_job_json)]
PlanField = Annotated[EdgePlan, PlainValidator(read_plan), PlainSerializer(plan_record)]
DecisionField = Annotated[
    EdgeDecision, PlainValidator(read_decision), PlainSerializer(decision_record)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """A slot of a job.

    Attributes:
        job: as it was decided on.
        training: how it trains.
        part: what is trained in the slot, and where.
        taken: chunks of each site that were trained before it.
        steps: of the optimizer before it.
        number: of it among the slots in which the job trains, from 1.
        is_last: whether nothing remains after it: the adapter is exported then.
        until: unix time from which on what is not trained yet comes too late.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"ser_json_inf_nan": "constants"}

    job: JobField
    training: EdgeTraining
    part: SlotPlan
    taken: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    number: int = 1
    is_last: bool = False
    until: float = math.inf
