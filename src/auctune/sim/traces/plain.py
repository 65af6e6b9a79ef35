"""Job logs as plain CSV: `submit_s,gpus,duration_s,user`, in any order, other columns ignored.

Times are seconds from a midnight, so that the hour of the day is right; 0 stays 0.
"""

from pathlib import Path

from auctune.csv_table import read_table
from auctune.sim.traces.job_log import JobLog, make_log

COLUMNS = ("submit_s", "gpus", "duration_s", "user")


def read_plain(path: Path) -> JobLog:
    """The jobs in a plain CSV file, gzipped or not.

    Raises:
        InputError: naming file, line and field.
    """
    table = read_table(path, COLUMNS)
    return make_log(
        "plain",
        table.number("submit_s", "seconds >= 0", 0).to_numpy(),
        table.number("gpus", "GPUs > 0", 0, above=True).to_numpy(),
        table.number("duration_s", "seconds >= 0", 0).to_numpy(),
        table.frame["user"].fill_null("").to_list(),
        from_midnight=False,
    )
