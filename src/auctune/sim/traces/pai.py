"""The logs of Alibaba PAI: cluster-trace-gpu-v2020 (Weng et al., NSDI 2022).

Published in alibaba/clusterdata as CSV files without a header, whose columns stand in files of
their own (`pai_job_table.header` and so on):

| table | columns |
| --- | --- |
| pai_job_table | job_name, inst_id, user, status, start_time, end_time |
| pai_task_table | job_name, task_name, inst_num, status, start_time, end_time, plan_cpu, plan_mem, plan_gpu, gpu_type |
| pai_instance_table | job_name, task_name, inst_name, worker_name, inst_id, status, start_time, end_time, machine |

Times are seconds, shifted by a constant that is not published, but such that Unix time in UTC+8
gives the true hour and weekday. A job's start_time is when it was submitted; empty or 0: not known.
plan_gpu is in percent of a GPU, for each of inst_num instances; empty: none.

A job asks for the GPUs of all its tasks. It ran from the start of its first instance to the end of
its last; without the instance table, which is large and may be left away, from the start of its
first task to the end of the job.
"""  # noqa: E501

from pathlib import Path

import polars as pl

from auctune.csv_table import read_table
from auctune.domain import InputError
from auctune.sim.traces.job_log import JobLog, make_log

JOBS, TASKS, INSTANCES = "pai_job_table", "pai_task_table", "pai_instance_table"
COLUMNS = {
    JOBS: ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    TASKS: (
        *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
        *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
    ),
    INSTANCES: (
        *("job_name", "task_name", "inst_name", "worker_name", "inst_id", "status"),
        *("start_time", "end_time", "machine"),
    ),
}
_LOCAL_SECONDS = 8 * 3600.0


def read_pai(path: Path) -> JobLog:
    """The jobs on GPUs of a folder with the published tables, or of the tables beside one of them.

    Raises:
        InputError: naming file, line and field, or the table that is missing.
    """
    folder = path if path.is_dir() else path.parent
    jobs = _jobs(_table(folder, JOBS))
    gpus, task_start = _asked(_table(folder, TASKS))
    runs = task_start.with_columns(pl.lit(None, pl.Float64).alias("run_end"))
    if find_table(folder, INSTANCES) is not None:
        runs = _runs(_table(folder, INSTANCES))
    all_jobs = jobs.join(gpus, on="job_name", how="left", maintain_order="left").join(
        runs, on="job_name", how="left", maintain_order="left"
    )
    all_jobs = all_jobs.with_columns(
        (pl.coalesce("run_end", "end_time") - pl.col("run_start")).alias("duration_s")
    )
    on_gpus = all_jobs.filter(pl.col("gpus") > 0)
    timed = on_gpus.filter(pl.col("start_time").is_not_null())
    ran = timed.filter(pl.col("duration_s") >= 0)
    return make_log(
        "pai",
        (ran["start_time"] + _LOCAL_SECONDS).to_numpy(),
        ran["gpus"].to_numpy(),
        ran["duration_s"].to_numpy(),
        ran["user"].fill_null("").to_list(),
        left_out={
            "no GPU": len(all_jobs) - len(on_gpus),
            "not known when submitted": len(on_gpus) - len(timed),
            "no recorded run": len(timed) - len(ran),
        },
    )


def find_table(folder: Path, name: str) -> Path | None:
    """The file of a table in a folder, gzipped or not; none if there is none."""
    for suffix in (".csv", ".csv.gz"):
        if (folder / f"{name}{suffix}").is_file():
            return folder / f"{name}{suffix}"
    return None


def _table(folder: Path, name: str) -> pl.DataFrame:
    """The columns of a table that are needed, times that are not known as null."""
    path = find_table(folder, name)
    if path is None:
        raise InputError(str(folder), f"has no {name}.csv", f"{JOBS}.csv and {TASKS}.csv together")
    wanted = {
        JOBS: ("job_name", "user", "start_time", "end_time"),
        TASKS: ("job_name", "inst_num", "start_time", "plan_gpu"),
        INSTANCES: ("job_name", "start_time", "end_time"),
    }[name]
    table = read_table(path, wanted, names=COLUMNS[name])
    table.text("job_name")
    frame = table.frame
    for column in wanted:
        if column in ("inst_num", "plan_gpu"):
            values = table.optional_number(column, "a number").alias(column)
            frame = frame.with_columns(values.fill_null(0.0))
        elif column.endswith("_time"):
            seconds = table.optional_number(column, "seconds").alias(column)
            frame = frame.with_columns(seconds.set(seconds <= 0, None))
    return frame


def _jobs(jobs: pl.DataFrame) -> pl.DataFrame:
    return jobs.unique("job_name", keep="first", maintain_order=True)


def _asked(tasks: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """By job: GPUs of all its tasks; start of the first of them."""
    by_job = tasks.group_by("job_name", maintain_order=True)
    gpus = by_job.agg((pl.col("inst_num") * pl.col("plan_gpu") / 100).sum().alias("gpus"))
    return gpus, by_job.agg(pl.col("start_time").min().alias("run_start"))


def _runs(instances: pl.DataFrame) -> pl.DataFrame:
    """By job: start of the first instance that was recorded whole, and end of the last."""
    whole = instances.drop_nulls(["start_time", "end_time"])
    return whole.group_by("job_name", maintain_order=True).agg(
        pl.col("start_time").min().alias("run_start"),
        pl.col("end_time").max().alias("run_end"),
    )
