"""The columns of task and decision files; docs/reference/streams.md.

| kind of file | a row |
| --- | --- |
| tasks | a bid, with the fields of an instance file's task |
| decisions | a decision, with the fields of OUT.jsonl; with outages also a change of a plan |
"""

import pyarrow as pa

from auctune.domain import Cluster, InputError

# Every amount that fits is below the largest one that a market takes, 10**11.
MONEY = pa.decimal128(15, 4)

QUOTE = pa.struct([("vendor", pa.string()), ("price", MONEY), ("delay", pa.int64())])
CELL = pa.struct([("slot", pa.int64()), ("node", pa.string())])

DECISIONS = pa.schema(
    [
        ("task", pa.string()),
        ("admitted", pa.bool_()),
        ("vendor", pa.string()),
        ("payment", MONEY),
        ("value", pa.float64()),
        ("surplus", pa.float64()),
        ("schedule", pa.list_(CELL)),
        ("reason", pa.string()),
        ("refund", MONEY),
    ]
)


def task_columns(cluster: Cluster) -> pa.Schema:
    """The columns of a task file; node types are fields of its structs."""
    types = list(cluster.node_types)
    return pa.schema(
        [
            ("id", pa.string()),
            ("arrival", pa.int64()),
            ("deadline", pa.int64()),
            ("work", pa.float64()),
            ("memory_gb", pa.float64()),
            ("bid", MONEY),
            ("throughput", pa.struct([(name, pa.float64()) for name in types])),
            ("quotes", pa.list_(QUOTE)),
            ("operating_cost", pa.struct([(name, pa.list_(pa.float64())) for name in types])),
        ]
    )


OPTIONAL = ("quotes", "operating_cost")


def check_columns(found: pa.Schema, cluster: Cluster) -> None:
    """Refuse a task file that has other columns than it should.

    Numbers may be of any kind that converts without loss; text is text.

    Raises:
        InputError: naming the column.
    """
    expected = task_columns(cluster)
    for name in found.names:
        if name not in expected.names:
            raise InputError(name, "is no column of the format", ", ".join(expected.names))
    for name in expected.names:
        if name not in found.names:
            if name in OPTIONAL:
                continue
            raise InputError(name, "is missing", f"a column of {expected.field(name).type}")
    for name in ("throughput", "operating_cost"):
        if name in found.names:
            _check_types(found.field(name).type, name, cluster)


def _check_types(found: pa.DataType, name: str, cluster: Cluster) -> None:
    known = ", ".join(cluster.node_types)
    if not pa.types.is_struct(found):
        raise InputError(name, f"is {found}", f"a struct with a field for each of {known}")
    for field in found:
        if field.name not in cluster.node_types:
            raise InputError(f"{name}.{field.name}", "is no node type", f"one of {known}")
