import pickle

from hypothesis import given
from hypothesis import strategies as st

from auctune.service.vendors import Fault, VendorError
from auctune.service.vendors.fault import make_printable


@given(st.text(max_size=500))
def test_a_strangers_text_becomes_one_short_printable_line(text: str) -> None:
    line = make_printable(text)
    assert len(line) <= 200
    assert line.isprintable()


def test_a_short_text_stays_as_it_is() -> None:
    assert make_printable("no rows, sorry") == "no rows, sorry"


def test_an_error_names_vendor_fault_and_detail() -> None:
    error = VendorError("mender", Fault.PRICE, "'\x1b[2J'\n is no money")
    assert str(error) == "vendor mender: price: '\ufffd[2J' is no money"


def test_an_error_survives_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(VendorError("mender", Fault.LATE, "no answer")))
    assert (error.vendor, error.fault, error.detail) == ("mender", Fault.LATE, "no answer")
