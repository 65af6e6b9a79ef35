"""A market of two sites with one job and one plan that keeps every constraint."""

from auctune.edge import EdgeJob, EdgeMarket, EdgePlan, Logistic, Move, Site, SlotPlan

MARKET = EdgeMarket(
    slots=5,
    sites=(Site("a", {"gpu": 2, "cpu": 8}), Site("b", {"gpu": 1, "cpu": 8})),
    traffic_mb_per_slot=20,
    chunk_mb=2,
    price_base={"data": 10, "gpu": 100},
)
JOB = EdgeJob(
    id="job",
    arrival=1,
    epochs=3,
    chunks={"a": 5, "b": 3},
    worker={"gpu": 1, "cpu": 2},
    server={"cpu": 1},
    chunks_per_worker_slot=6,  # two chunks, trained for three epochs
    parameter_mb=5,
    utility=Logistic(100, 2),
)
FIRST = SlotPlan(1, {"a": 2, "b": 1}, "a", (Move("a", "a", 4), Move("b", "b", 1)))
SECOND = SlotPlan(2, {"a": 2}, "b", (Move("a", "a", 1), Move("b", "a", 2)))
PLAN = EdgePlan((FIRST, SECOND))
