"""Which of the known formats a job log is in, told from what it holds."""

from collections.abc import Callable
from pathlib import Path

from auctune.csv_table import read_bytes
from auctune.domain import InputError
from auctune.sim.traces.helios import read_helios
from auctune.sim.traces.job_log import JobLog
from auctune.sim.traces.pai import JOBS, find_table, read_pai
from auctune.sim.traces.philly import read_philly
from auctune.sim.traces.plain import COLUMNS as PLAIN_COLUMNS
from auctune.sim.traces.plain import read_plain

KNOWN = (
    "Philly's cluster_job_log (JSON), Helios' cluster_log.csv, Alibaba PAI's pai_job_table.csv "
    f"with pai_task_table.csv beside it, or a CSV with columns {', '.join(PLAIN_COLUMNS)}"
)
_BY_NAME = (("cluster_job_log", read_philly), ("cluster_log.csv", read_helios))


def read_job_log(path: Path) -> JobLog:
    """The jobs in a file, or in a folder with the files of one published log.

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
