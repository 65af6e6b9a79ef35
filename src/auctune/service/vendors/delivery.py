"""What a vendor delivers, checked like an upload before it counts."""

from pathlib import Path

from auctune.domain import InputError
from auctune.domain.dataset import read_dataset
from auctune.run.atomic_file import replace_durably
from auctune.run.vendors import DroppedRow, Example, RepairReport
from auctune.service.vendors.fault import Fault, VendorError, make_printable
from auctune.service.vendors.messages import ReportBody

_ROW_BYTES = 512
_REPORT_BYTES = (1 << 20, 128 << 20)


def report_limit(rows: int) -> int:
    """Bytes that a report on so many rows has at most: each may be dropped, for a reason."""
    least, most = _REPORT_BYTES
    return min(least + _ROW_BYTES * rows, most)


def make_report(vendor: str, body: ReportBody) -> RepairReport:
    """The report in the market's own type, its texts made harmless.

    Raises:
        VendorError: if its numbers do not add up.
    """
    dropped = (DroppedRow(row.line, row.reason, make_printable(row.note)) for row in body.dropped)
    examples = (
        Example(row.line, row.actions, make_printable(row.before), make_printable(row.after))
        for row in body.examples
    )
    try:
        return RepairReport(
            vendor=vendor,
            kind=body.kind,
            rows_in=body.rows_in,
            rows_out=body.rows_out,
            actions=dict(body.actions),
            dropped=tuple(dropped),
            examples=tuple(examples),
        )
    except ValueError as error:
        raise VendorError(vendor, Fault.RESULT, f"the report: {error}") from None


def accept_delivery(draft: Path, report: RepairReport, target: Path) -> None:
    """Put what was fetched into `target`, if it is a data set and the one reported.

    Raises:
        VendorError: if not.
    """
    try:
        data = read_dataset(draft, "the result")
    except InputError as error:
        raise VendorError(report.vendor, Fault.RESULT, str(error)) from None
    found, reported = (data.kind, len(data)), (report.kind, report.rows_out)
    if found != reported:
        detail = f"{found[1]} {found[0]} rows, while {reported[1]} {reported[0]} rows are reported"
        raise VendorError(report.vendor, Fault.RESULT, detail)
    replace_durably(draft, target)
