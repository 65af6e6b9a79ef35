"""Random small markets for property tests: hypothesis strategies over whole instances."""

from decimal import Decimal

from hypothesis import strategies as st

from auctune.domain import Cluster, Node, NodeType, Quote, Task

# Coarse grids make ties and exact fits common, which is where searches go wrong.
grid = st.integers(0, 8).map(lambda i: i / 4)
fine = st.floats(0.0, 2.0, allow_nan=False).map(lambda x: round(x, 6))
cost = st.one_of(st.just(0.0), grid, fine)


@st.composite
def clusters(
    draw: st.DrawFn, *, max_slots: int = 4, max_nodes: int = 4, max_types: int = 3
) -> Cluster:
    # Long ones more often: in a single slot there is little to go wrong.
    slots = draw(st.sampled_from([*range(1, max_slots + 1), *[max_slots] * max_slots]))
    num_types = draw(st.integers(1, max_types))
    types = {}
    for k in range(num_types):
        flat = draw(st.booleans())
        energy = [draw(cost)] * slots if flat else [draw(cost) for _ in range(slots)]
        types[f"type{k}"] = NodeType(
            compute=draw(st.sampled_from([4.0, 6.0, 8.0, 10.0])),
            memory_gb=1.0 + draw(st.sampled_from([2.0, 4.0, 8.0])),
            energy_cost=tuple(energy),
        )
    num_nodes = draw(st.integers(num_types, max(num_types, max_nodes)))
    kinds = [*types, *(draw(st.sampled_from(sorted(types))) for _ in range(num_nodes - num_types))]
    order = draw(st.permutations(kinds))
    nodes = tuple(Node(f"n{i}", kind) for i, kind in enumerate(order))
    return Cluster(slots, 60.0, 1.0, types, nodes)


@st.composite
def tasks(draw: st.DrawFn, cluster: Cluster, index: int = 0) -> Task:
    last = cluster.slots - 1
    arrival = draw(st.one_of(st.just(0), st.integers(0, last)))
    # Drawn alone, most windows would be too short for any schedule.
    deadline = draw(st.one_of(st.just(last), st.just(last), st.integers(arrival, last)))
    names = draw(st.lists(st.sampled_from(sorted(cluster.node_types)), min_size=1, unique=True))
    throughput = {
        name: draw(st.one_of(st.integers(1, 4).map(float), st.floats(0.5, 4.0))) for name in names
    }
    own_cost = None
    if draw(st.integers(0, 4)) == 0:
        own_cost = {name: [draw(cost) for _ in range(cluster.slots)] for name in names}
    return Task(
        id=f"t{index}",
        arrival=arrival,
        deadline=deadline,
        work=draw(st.one_of(st.integers(1, 8).map(float), st.floats(0.5, 8.0))),
        memory_gb=draw(st.one_of(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.floats(0.01, 2.0))),
        bid=draw(bids),
        throughput=throughput,
        quotes=tuple(draw(st.lists(quotes, max_size=3, unique_by=lambda q: q.vendor))),
        operating_cost=own_cost,
    )


bids = st.one_of(st.integers(0, 400_000), st.integers(50_000, 400_000)).map(
    lambda i: Decimal(i).scaleb(-4)
)
quotes = st.builds(
    Quote,
    vendor=st.sampled_from("abc"),
    price=st.sampled_from(["0.0000", "0.5000", "0.5001", "2.0000"]).map(Decimal),
    delay=st.sampled_from([0, 0, 0, 1, 2]),
)


@st.composite
def instances(
    draw: st.DrawFn,
    *,
    max_slots: int = 4,
    max_nodes: int = 4,
    max_types: int = 3,
    max_tasks: int = 6,
) -> tuple[Cluster, list[Task]]:
    """A cluster and its bids in order of arrival."""
    cluster = draw(clusters(max_slots=max_slots, max_nodes=max_nodes, max_types=max_types))
    count = draw(st.integers(1, max_tasks))
    drawn = [draw(tasks(cluster, index)) for index in range(count)]
    return cluster, sorted(drawn, key=lambda task: task.arrival)
