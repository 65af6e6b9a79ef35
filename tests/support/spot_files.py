"""Small job and market files for `auctune spot`."""

import json
from pathlib import Path

import numpy as np

from auctune.spot import SpotMarket

JOB = """
[job]
workload = 12
deadline_slots = 4
n_max = 6

[market]
on_demand_price = 2.0
slot_seconds = 600
"""
TRAINING = """
[training]
base = "tiny"
data = "rows.jsonl"
batch_size = 4
max_length = 48
"""


def write_market(path: Path, market: SpotMarket, on_demand_price: float = 2.0) -> Path:
    """A market as a file, in money, a line a slot."""
    lines = ["t_s,available,price"]
    for slot in range(market.num_slots):
        price = float(market.price[slot]) * on_demand_price
        lines.append(f"{slot * market.slot_seconds:g},{market.available[slot]},{price!r}")
    path.write_text("\n".join(lines) + "\n")
    return path


def write_job(path: Path, text: str = JOB) -> Path:
    """A job's file."""
    path.write_text(text)
    return path


def write_rows(path: Path, count: int) -> Path:
    """Training rows."""
    rows = [{"prompt": f"Say {n}.", "completion": f" {n} it is."} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def daily_market(num_slots: int, slot_seconds: float = 600.0, period: int = 12) -> SpotMarket:
    """Spot GPUs by half a period, dearer and dearer within it."""
    slots = np.arange(num_slots)
    available = np.where(slots % period < period // 2, 5, 0)
    price = np.asarray(0.25 + 0.05 * (slots % 4), dtype=np.float64)
    return SpotMarket(price, available, slot_seconds=slot_seconds)
