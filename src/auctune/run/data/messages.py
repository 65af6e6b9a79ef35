"""What a data process is asked, and what it answers.

| to it | value of `done` |
| --- | --- |
| prepare {base} | the longest row that the base can read, or null |
| size {base, path, place, max_length, store} | `DataFacts`; with `store`, tokens are stored too |
| store {base, path, place, max_length} | null, once the file's tokens are stored beside it |
| measure {base, path, place, max_length} | `DataSize` |
| appraise {base, path, place, max_length, vendors} | `Appraisal` |
| repair {source, target, vendor} | `RepairReport` |
| images {path, place} | `ImageFacts` |
| archive {folder, target, name} | `Archived` |

Each request has an id; the answer is done {id, value} or failed {id, place, found, expected}.
"""

from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from auctune.domain.dataset import RowKind
from auctune.run.vendors import RepairParams


def params_record(params: RepairParams) -> dict[str, Any]:
    """A vendor's parameters as plain values."""
    return asdict(params) | {
        "price": str(params.price),
        "price_per_row": str(params.price_per_row),
        "kind": None if params.kind is None else str(params.kind),
    }


def read_params(record: Mapping[str, Any]) -> RepairParams:
    """The parameters that `params_record` wrote."""
    return RepairParams(
        **dict(record)
        | {
            "price": Decimal(record["price"]),
            "price_per_row": Decimal(record["price_per_row"]),
            "languages": tuple(record["languages"]),
            "kind": None if record["kind"] is None else RowKind(record["kind"]),
        }
    )
