"""An upper bound on the welfare of an instance, small enough for a hundred jobs.

 maximize   sum f_i(t) u_it
 subject to sum over t of u_it <= 1
            sum over tau <= t of a_i,tau,t = D_i u_it,   a_i,tau,t <= reach_i u_it
            sum over i, t of (w_i^k n_i + s_i^k / reach_i) a_i,tau,t <= sum over r of C_r^k
            sum over i of lambda_i (n_i sum over t of a_i,tau,t - G_i sum over t of u_it) <= B

u_it: job i finishes in slot t; a: the chunks that it trains in slot tau then; n_i: workers a
chunk at the least; G_i: workers that fit one site at the most, so that all others are away from
the server. Sites are pooled and nothing is whole, so no decisions have more welfare. Finishes
`tail` slots after the arrival and later are one column each, worth the first of them, that uses
nothing. With whole u, so that no job has a share of several finishes, the bound is up to 7% lower
on the testbed: of what one job can reach by itself the linear program knows nearly all, and of
two that want the same slots only the mean.
"""

from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import EdgeMarket
from auctune.edge.offline.program import ProgramBuilder, limits_of
from auctune.numerics.arrays import Floats
from auctune.numerics.highs import INFINITY, SolveOptions, Status, solve

TAIL = 30


def welfare_bound(
    market: EdgeMarket,
    jobs: tuple[EdgeJob, ...],
    tail: int = TAIL,
    search: SolveOptions | None = None,
) -> float:
    """No decisions on these jobs together have more welfare, money.

    Args:
        market: the supply, empty.
        jobs: all bids.
        tail: slots after which a finish is not looked at any closer, >= 1.
        search: gap and limits of the search for whole finishes; None: a linear program, in which a
            job may have shares of several.
    """
    if not jobs:
        return 0.0
    builder, ledger = ProgramBuilder(), EdgeLedger(market)
    pooled: Floats = ledger.capacity.sum(axis=0)
    kinds = [[builder.row([], upper=float(units)) for units in pooled] for _ in range(market.slots)]
    traffic = [builder.row([], upper=market.traffic_mb_per_slot) for _ in range(market.slots)]
    for job in jobs:
        add_pooled_job(builder, ledger, job, tail, kinds, traffic, whole=search is not None)
    if not builder.num_columns:
        return 0.0
    solved = solve(builder.build(), search)
    assert search or solved.status is Status.OPTIMAL, solved.status
    # Columns between 0 and a few units, whose reduced costs may be wrong by the tolerance.
    margin = 1e-8 * (builder.num_columns + 1) * max(job.num_chunks for job in jobs)
    return solved.bound + margin


def add_pooled_job(
    builder: ProgramBuilder,
    ledger: EdgeLedger,
    job: EdgeJob,
    tail: int,
    kinds: list[list[int]],
    traffic: list[int],
    *,
    whole: bool = False,
) -> None:
    """Add a job to the pooled program: its columns, and its terms in the rows that all jobs share.

    Args:
        builder: of the program.
        ledger: what others hold.
        job: which.
        tail: slots after which a finish is one column.
        kinds: rows of the units of each type, [T][K].
        traffic: rows of the traffic, [T].
        whole: whether it has one finish, or shares of several.
    """
    market, limits = ledger.market, limits_of(ledger, job)
    if limits.earliest is None:
        return
    last = min(market.slots, job.arrival + tail)
    finishes = range(limits.earliest, last)
    late = max(last, limits.earliest)
    once = builder.row([], upper=1.0)
    if late < market.slots:
        builder.add(once, builder.columns((1,), job.value(late), 1.0, whole=whole), 1.0)
    use = market.needs(job.worker) * limits.workers_per_chunk
    server, reach = market.needs(job.server), max(1, int(limits.reach[0]))
    away = [builder.columns((1,), 0.0, INFINITY, whole=False) for _ in range(job.arrival, last)]
    count = [
        builder.row([(column, -1.0)], upper=0.0) if job.parameter_mb else -1 for column in away
    ]
    for finish in finishes:
        chosen = builder.columns((1,), job.value(finish), 1.0, whole=whole)
        builder.add(once, chosen, 1.0)
        trained = builder.columns((finish - job.arrival + 1,), 0.0, INFINITY, whole=False)
        builder.row([(trained, 1.0), (chosen, -float(job.num_chunks))], 0.0, 0.0)
        for row, column in enumerate(trained):
            builder.row([(column, 1.0), (chosen, -float(limits.reach[row]))], upper=0.0)
            for kind, units in zip(kinds[job.arrival + row], use + server / reach, strict=True):
                builder.add(kind, column, float(units))
            if job.parameter_mb:
                most = float(limits.most_workers[row].max())
                builder.add(count[row], column, limits.workers_per_chunk)
                builder.add(count[row], chosen, -most)
    if job.parameter_mb:
        for row, column in enumerate(away):
            builder.add(traffic[job.arrival + row], column, job.parameter_mb)
