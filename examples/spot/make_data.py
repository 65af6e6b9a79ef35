"""Write the market and the training rows of this example, deterministically.

The market is synthetic: drawn with a seed from a model fitted to records of V100 instances
(docs/explanation/spot-data.md). Its counts and prices have steps of ten minutes, so that an
instance can be preempted within a slot of half an hour.
"""

import csv
import json
from dataclasses import replace
from pathlib import Path

from auctune.numerics.rng import stream
from auctune.sim.spot.generator import V100_MARKET
from auctune.sim.spot.trace import ON_DEMAND_V100

HERE = Path(__file__).parent
SEED = 12
DAYS = 14
LINE_SECONDS = 600

PRODUCTS = ("lamp", "kettle", "radio", "fan", "clock", "scale")
TROUBLES = {
    "does not switch on": "Try another socket, then hold the button for five seconds.",
    "makes a noise": "Place it on a flat table and tighten the two screws below.",
    "smells when warm": "That goes away after the first hour; keep a window open.",
    "came without a manual": "The manual is on our page under its name; we mail one too.",
    "has a broken cable": "Do not use it. A new cable is on its way to you, free of charge.",
}


def main(folder: Path = HERE) -> None:
    """Write market.csv and data/support.jsonl, by default beside this file."""
    market = replace(V100_MARKET, slot_seconds=LINE_SECONDS).market(
        DAYS * 86_400 // LINE_SECONDS, SEED
    )
    with (folder / "market.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["t_s", "available", "price"])
        for line in range(market.num_slots):
            price = market.price[line] * ON_DEMAND_V100
            writer.writerow([line * LINE_SECONDS, market.available[line], f"{price:.4f}"])
    random = stream(SEED, "support")
    rows = [
        {"prompt": f"My {product} {trouble}.", "completion": f" {answer}"}
        for product in PRODUCTS
        for trouble, answer in TROUBLES.items()
        for _ in range(4)
    ]
    order = random.permutation(len(rows))
    (folder / "data").mkdir(exist_ok=True)
    with (folder / "data" / "support.jsonl").open("w") as file:
        file.writelines(json.dumps(rows[index]) + "\n" for index in order)


if __name__ == "__main__":
    main()
