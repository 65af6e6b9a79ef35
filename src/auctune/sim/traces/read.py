"""Readers of job logs: Philly, Helios, PAI, and plain CSV."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from auctune.domain import InputError
from auctune.files.csv_table import Table, read_bytes, read_table
from auctune.sim.traces.job_log import JobLog, make_log

PLAIN_COLUMNS = ("submit_s", "gpus", "duration_s", "user")


def read_plain(path: Path) -> JobLog:
    """Return the jobs in a plain CSV file, gzipped or not.

    Raises:
        InputError: naming file, line and field.
    """
    table = read_table(path, PLAIN_COLUMNS)
    return make_log(
        "plain",
        table.number("submit_s", "seconds >= 0", 0).to_numpy(),
        table.number("gpus", "GPUs > 0", 0, above=True).to_numpy(),
        table.number("duration_s", "seconds >= 0", 0).to_numpy(),
        table.frame["user"].fill_null("").to_list(),
        from_midnight=False,
    )


# The Helios logs of SenseTime: `cluster_log.csv` of one cluster (Hu et al., SC 2021).
#
# Published in S-Lab-System-Group/HeliosData as CSV with a header: job_id, user, vc, gpu_num,
# cpu_num, node_num, state, submit_time, start_time, end_time, duration, queue. Times are of the
# cluster's own clock, `YYYY-MM-DD HH:MM:SS`; `duration` is end less start, in seconds. More than
# half of the jobs ask for no GPU; they are left out. Jobs of every state count: those that failed
# were bids as well.

HELIOS_COLUMNS = ("user", "gpu_num", "submit_time", "duration")


def read_helios(path: Path) -> JobLog:
    """Return the GPU jobs of a `cluster_log.csv`.

    Raises:
        InputError: naming file, line and field.
    """
    table = read_table(path, HELIOS_COLUMNS)
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


# The Philly log of Microsoft: `cluster_job_log` (Jeon et al., USENIX ATC 2019).
#
# Published in msr-fiddle/philly-traces as one JSON list of jobs: status, vc, jobid,
# submitted_time, user, and attempts, each with start_time, end_time and detail, a list of servers
# (ip) with their gpus. Times are `YYYY-MM-DD HH:MM:SS` of the cluster's clock (Pacific time, which
# was set back an hour on 2017-11-05); null, "" or "None" where none was recorded.
#
# As in the analysis that is published with it, a job's GPUs are those of its first attempt. It ran
# as long as its attempts together: the time between them held no GPU. Jobs without an attempt and
# without a recorded run are left out, since neither GPUs nor duration is known of them.

_NOT_RECORDED = (None, "", "None")
_FORMAT = "%Y-%m-%d %H:%M:%S"


def read_philly(path: Path) -> JobLog:
    """Return the jobs of a `cluster_job_log` that ran on GPUs.

    Raises:
        InputError: naming file, job and field: `cluster_job_log: [3].attempts[0].end_time`.
    """
    place = str(path)
    jobs = _read_json(path, place)
    if not isinstance(jobs, list):
        raise InputError(place, f"is a JSON {type(jobs).__name__}", "a list of jobs")
    left_out: Counter[str] = Counter()
    kept: list[tuple[float, int, float, str]] = []
    for index, job in enumerate(jobs):
        where = f"{place}: [{index}]"
        submitted = _time(_field(job, "submitted_time", where), f"{where}.submitted_time")
        if submitted is None:
            left_out["not known when submitted"] += 1
            continue
        gpus, seconds = _gpus(job, where), _seconds(job, where)
        if gpus == 0:
            left_out["no GPU"] += 1
        elif seconds is None:
            left_out["no recorded run"] += 1
        else:
            kept.append((submitted, gpus, seconds, str(job.get("user") or "")))
    return make_log(
        "philly",
        [job[0] for job in kept],
        [job[1] for job in kept],
        [job[2] for job in kept],
        [job[3] for job in kept],
        left_out=left_out,
    )


def _read_json(path: Path, place: str) -> Any:
    data = read_bytes(path)
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        found = f"is not JSON ({error.msg})"
        raise InputError(f"{place}: line {error.lineno}", found, "a JSON list of jobs") from None
    except (ValueError, RecursionError):
        raise InputError(place, "is not JSON", "a JSON list of jobs") from None


def _gpus(job: Any, where: str) -> int:
    """GPUs of the first attempt; 0 if there was none."""
    attempts = _list(job, "attempts", where)
    if not attempts:
        return 0
    where = f"{where}.attempts[0]"
    servers = _list(attempts[0], "detail", where)
    return sum(
        len(_list(server, "gpus", f"{where}.detail[{index}]"))
        for index, server in enumerate(servers)
    )


def _seconds(job: Any, where: str) -> float | None:
    """Seconds of all attempts that were recorded; None if no attempt was."""
    total: float | None = None
    for index, attempt in enumerate(_list(job, "attempts", where)):
        inner = f"{where}.attempts[{index}]"
        start = _time(_field(attempt, "start_time", inner), f"{inner}.start_time")
        end = _time(_field(attempt, "end_time", inner), f"{inner}.end_time")
        # A clock that is set back makes some attempts end before they start.
        if start is not None and end is not None and end >= start:
            total = (total or 0.0) + end - start
    return total


def _field(value: Any, key: str, where: str) -> Any:
    if not isinstance(value, dict):
        raise InputError(where, f"is a JSON {type(value).__name__}", f"an object with {key!r}")
    if key not in value:
        raise InputError(f"{where}.{key}", "is missing", f"an object with {key!r}")
    return value[key]


def _list(value: Any, key: str, where: str) -> list[Any]:
    found = _field(value, key, where)
    if not isinstance(found, list):
        raise InputError(f"{where}.{key}", f"is a JSON {type(found).__name__}", "a list")
    return found


def _time(value: Any, where: str) -> float | None:
    """Seconds from an epoch of the cluster's clock; None if not recorded."""
    if value in _NOT_RECORDED:
        return None
    try:
        # UTC stands for a clock that knows of no zones.
        return datetime.strptime(value, _FORMAT).replace(tzinfo=UTC).timestamp()
    except (TypeError, ValueError):
        raise InputError(where, repr(value)[:60], "a time YYYY-MM-DD HH:MM:SS") from None


# The logs of Alibaba PAI: cluster-trace-gpu-v2020 (Weng et al., NSDI 2022).
#
# Published in alibaba/clusterdata as CSV files without a header, whose columns stand in files of
# their own (`pai_job_table.header` and so on):
#
# | table | columns |
# | --- | --- |
# | pai_job_table | job_name, inst_id, user, status, start_time, end_time |
# | pai_task_table | job_name, task_name, inst_num, status, start_time, end_time, plan_cpu,
# plan_mem, plan_gpu, gpu_type
# |
# | pai_instance_table | job_name, task_name, inst_name, worker_name, inst_id, status, start_time,
# end_time, machine |
#
# Times are seconds, shifted by a constant that is not published, but such that Unix time in UTC+8
# gives the true hour and weekday. A job's start_time is when it was submitted; empty or 0: not
# known. plan_gpu is in percent of a GPU, for each of inst_num instances; empty: none.
#
# A job asks for the GPUs of all its tasks. It ran from the start of its first instance to the end
# of its last; without the instance table, which is large and may be left away, from the start of
# its first task to the end of the job.

JOBS, TASKS, INSTANCES = "pai_job_table", "pai_task_table", "pai_instance_table"
PAI_COLUMNS = {
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
    """Return the file of a table in a folder, gzipped or not; None if there is none."""
    for suffix in (".csv", ".csv.gz"):
        if (folder / f"{name}{suffix}").is_file():
            return folder / f"{name}{suffix}"
    return None


def _table(folder: Path, name: str) -> pl.DataFrame:
    """Return the columns of a table that are needed, times that are not known as null."""
    path = find_table(folder, name)
    if path is None:
        raise InputError(str(folder), f"has no {name}.csv", f"{JOBS}.csv and {TASKS}.csv together")
    wanted = {
        JOBS: ("job_name", "user", "start_time", "end_time"),
        TASKS: ("job_name", "inst_num", "start_time", "plan_gpu"),
        INSTANCES: ("job_name", "start_time", "end_time"),
    }[name]
    table = read_table(path, wanted, names=PAI_COLUMNS[name])
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


KNOWN = (
    "Philly's cluster_job_log (JSON), Helios' cluster_log.csv, Alibaba PAI's pai_job_table.csv "
    f"with pai_task_table.csv beside it, or a CSV with columns {', '.join(PLAIN_COLUMNS)}"
)
_BY_NAME = (("cluster_job_log", read_philly), ("cluster_log.csv", read_helios))


def read_job_log(path: Path) -> JobLog:
    """Return the jobs in a file, or in a folder with the files of one published log.

    Raises:
        InputError: naming what is wrong, or the formats that are known.
    """
    read, where = _recognize(path)
    log = read(where)
    if not len(log):
        raise InputError(str(path), "has no jobs on GPUs", "one at least")
    return log


def _recognize(path: Path) -> tuple[Callable[[Path], JobLog], Path]:
    if path.is_dir():
        return _in_folder(path)
    if path.name.startswith("pai_"):
        return read_pai, path
    start = read_bytes(path)[:4096].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"[", b"{")):
        return read_philly, path
    first = start.split(b"\n")[0].decode("utf-8", errors="replace")
    columns = [column.strip().strip('"') for column in first.split(",")]
    if "submit_s" in columns:
        return read_plain, path
    if {"submit_time", "gpu_num"} & set(columns):
        return read_helios, path
    raise InputError(str(path), "is in no known format of job logs", KNOWN)


def _in_folder(folder: Path) -> tuple[Callable[[Path], JobLog], Path]:
    if find_table(folder, JOBS) is not None:
        return read_pai, folder
    for name, read in _BY_NAME:
        for suffix in ("", ".gz"):
            if (folder / f"{name}{suffix}").is_file():
                return read, folder / f"{name}{suffix}"
    raise InputError(str(folder), "holds no known job log", KNOWN)
