"""The Philly log of Microsoft: `cluster_job_log` (Jeon et al., USENIX ATC 2019).

Published in msr-fiddle/philly-traces as one JSON list of jobs: status, vc, jobid, submitted_time,
user, and attempts, each with start_time, end_time and detail, a list of servers (ip) with their
gpus. Times are `YYYY-MM-DD HH:MM:SS` of the cluster's clock (Pacific time, which was set back an
hour on 2017-11-05); null, "" or "None" where none was recorded.

As in the analysis that is published with it, a job's GPUs are those of its first attempt. It ran as
long as its attempts together: the time between them held no GPU. Jobs without an attempt and
without a recorded run are left out, since neither GPUs nor duration is known of them.
"""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from auctune.csv_table import read_bytes
from auctune.domain import InputError
from auctune.sim.traces.job_log import JobLog, make_log

_NOT_RECORDED = (None, "", "None")
_FORMAT = "%Y-%m-%d %H:%M:%S"


def read_philly(path: Path) -> JobLog:
    """The jobs of a `cluster_job_log` that ran on GPUs.

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
    """Seconds of all attempts that were recorded; none if no attempt was."""
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
    """Seconds from an epoch of the cluster's clock; none if not recorded."""
    if value in _NOT_RECORDED:
        return None
    try:
        # UTC stands for a clock that knows of no zones.
        return datetime.strptime(value, _FORMAT).replace(tzinfo=UTC).timestamp()
    except (TypeError, ValueError):
        raise InputError(where, repr(value)[:60], "a time YYYY-MM-DD HH:MM:SS") from None
