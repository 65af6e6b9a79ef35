"""The Helios logs of SenseTime: `cluster_log.csv` of one cluster (Hu et al., SC 2021).

Published in S-Lab-System-Group/HeliosData as CSV with a header: job_id, user, vc, gpu_num, cpu_num,
node_num, state, submit_time, start_time, end_time, duration, queue. Times are of the cluster's own
clock, `YYYY-MM-DD HH:MM:SS`; `duration` is end less start, in seconds. More than half of the jobs
ask for no GPU; they are left out. Jobs of every state count: those that failed were bids as well.
"""

from pathlib import Path

import polars as pl

from auctune.csv_table import Table, read_table
from auctune.sim.traces.job_log import JobLog, make_log

COLUMNS = ("user", "gpu_num", "submit_time", "duration")


def read_helios(path: Path) -> JobLog:
    """The GPU jobs of a `cluster_log.csv`.

    Raises:
        InputError: naming file, line and field.
    """
    table = read_table(path, COLUMNS)
    gpus = table.number("gpu_num", "a number of GPUs >= 0", 0)
    on_gpus = Table(table.place, table.frame.filter(gpus > 0))
    return make_log(
        "helios",
        on_gpus.time("submit_time").to_numpy(),
        gpus.filter(gpus > 0).to_numpy(),
        on_gpus.number("duration", "seconds >= 0", 0).to_numpy(),
        on_gpus.frame["user"].fill_null(pl.lit("")).to_list(),
        left_out={"no GPU": len(gpus) - len(on_gpus.frame)},
    )
