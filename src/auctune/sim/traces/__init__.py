"""Job logs of real clusters, each read from the format in which it was published."""

from auctune.sim.traces.job_log import JobLog
from auctune.sim.traces.read import read_job_log

__all__ = ["JobLog", "read_job_log"]
