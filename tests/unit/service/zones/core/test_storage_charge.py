"""What storage costs: exact however its time is cut, and nothing is lost between charges."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from auctune.domain.money import STEP
from auctune.service.zones.core.events import GB_MONTH, StorageUsed, storage_charge

PRICES = st.decimals(min_value=0, max_value=10**6, places=4)
USES = st.lists(st.integers(0, 10**21), max_size=20)


@given(PRICES, USES)
def test_charges_of_parts_sum_to_the_charge_of_the_whole(price: Decimal, uses: list[int]) -> None:
    charged, carried = Decimal(0), 0
    for byte_seconds in uses:
        amount, carried = storage_charge(byte_seconds, price, carried)
        charged += amount
        assert 0 <= carried < GB_MONTH
    assert (charged, carried) == storage_charge(sum(uses), price)
    # Exactly, with integers: what was charged and what is carried is what all of it costs.
    assert int(charged / STEP) * GB_MONTH + carried == int(price / STEP) * sum(uses)


def test_a_gigabyte_for_thirty_days_costs_the_price() -> None:
    assert storage_charge(10**9 * 30 * 86_400, Decimal("0.0231")) == (Decimal("0.0231"), 0)


@given(st.integers(0, 10**30))
def test_any_number_of_byte_seconds_is_recorded_and_read_again(byte_seconds: int) -> None:
    body = StorageUsed(
        user="ada",
        team=None,
        since=0,
        until=86_400,
        byte_seconds=byte_seconds,
        price=Decimal(1),
        carried_before=0,
        amount=Decimal(0),
        carried=0,
    ).body()
    # Beyond 64 bits as text.
    assert body["byte_seconds"] == str(byte_seconds)
