"""Published series and price histories as market files, read back by the reader of these."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.sim.spot.importers import Counted, import_prices, import_series, write_trace
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe, SpotTrace, read_market
from auctune.sim.spot.trace import read_trace as read_market_file


def series(folder: Path, **more: Any) -> Path:
    path = folder / "series.json"
    content = {"metadata": {"gap_seconds": 300}, "data": [0, 1, 1, 0]} | more
    path.write_text(json.dumps(content))
    return path


def change(time: str, price: str, zone: str = "us-east-1a") -> dict[str, str]:
    return {
        "AvailabilityZone": zone,
        "InstanceType": "p3.16xlarge",
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": price,
        "Timestamp": time,
    }


def history(folder: Path, *changes: dict[str, str]) -> Path:
    path = folder / "history.json"
    path.write_text(json.dumps({"SpotPriceHistory": list(changes)}))
    return path


def read_back(trace: SpotTrace, folder: Path) -> SpotTrace:
    path = folder / "market.csv"
    with path.open("w") as file:
        write_trace(trace, file)
    return read_market_file(path)


@pytest.mark.parametrize(("counted", "expected"), [("available", [0, 8]), ("unavailable", [8, 0])])
def test_a_series_counts_what_its_user_says_in_gpus(
    counted: Counted, expected: list[int], tmp_path: Path
) -> None:
    trace = read_back(import_series(series(tmp_path, data=[0, 1]), counted, 8), tmp_path)
    assert trace.recorded_available().tolist() == expected
    assert trace.t_s.tolist() == [0.0, 300.0]
    assert trace.price is None


def test_of_several_instances_the_unavailable_are_taken_off(tmp_path: Path) -> None:
    path = series(tmp_path, data=[0, 3, 4])
    assert import_series(path, "unavailable", 2, 4).recorded_available().tolist() == [8, 2, 0]
    with pytest.raises(
        InputError,
        match=r"counted: 'unavailable', but data\[1\] in .*series\.json is 3; "
        "expected available, or --instances of 4 or more",
    ):
        import_series(path, "unavailable", 2)


def test_prices_of_a_series_are_of_an_instance(tmp_path: Path) -> None:
    path = series(tmp_path, prices=[8.0, 8.0, 4.0, 4.0])
    trace = read_back(import_series(path, "available", 8), tmp_path)
    assert trace.recorded_price().tolist() == [1.0, 1.0, 0.5, 0.5]
    with pytest.raises(InputError, match="prices: 1; expected 4, as data"):
        import_series(series(tmp_path, prices=[8.0]), "available", 8)


def test_a_price_holds_from_its_change_on_whatever_the_order(tmp_path: Path) -> None:
    path = history(
        tmp_path,
        change("2023-02-15T01:00:00.000Z", "16.0"),
        change("2023-02-15T00:20:00+00:00", "4.0"),
        change("2023-02-15T00:00:00Z", "8.0"),
    )
    trace = read_back(import_prices(path, 8, step_seconds=600), tmp_path)
    assert trace.recorded_price().tolist() == [1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 2.0]
    assert trace.available is None
    # From a later start: the price that holds then.
    start = datetime(2023, 2, 15, 0, 50, tzinfo=UTC)
    assert import_prices(path, 8, start=start, step_seconds=600).recorded_price().tolist() == [
        0.5,
        2.0,
    ]
    with pytest.raises(InputError, match="start: 2023-02-14T00:00"):
        import_prices(path, 8, start=datetime(2023, 2, 14, tzinfo=UTC))


def test_one_series_of_a_history_is_named_where_it_has_several(tmp_path: Path) -> None:
    path = history(
        tmp_path,
        change("2023-02-15T00:00:00Z", "8"),
        change("2023-02-15T00:00:00Z", "2", zone="us-east-1b"),
        change("2023-02-15T01:00:00Z", "4", zone="us-east-1b"),
    )
    trace = import_prices(path, 1, zone="us-east-1b", step_seconds=3600)
    assert trace.recorded_price().tolist() == [2.0, 4.0]
    with pytest.raises(InputError, match=r"zone: is missing; .* has us-east-1a, us-east-1b"):
        import_prices(path, 1)
    with pytest.raises(InputError, match="zone: 'us-east-1c'; expected one of us-east-1a"):
        import_prices(path, 1, zone="us-east-1c")
    with pytest.raises(InputError, match="no change of price"):
        import_prices(path, 1, zone="us-east-1a")
    with pytest.raises(
        InputError, match=r"step_seconds: 1e-05: 3[0-9,]{10} lines; expected longer steps"
    ):
        import_prices(path, 1, zone="us-east-1b", step_seconds=1e-5)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({"metadata": {"gap_seconds": 0}}, "metadata.gap_seconds: 0"),
        ({"metadata": {}}, "metadata.gap_seconds: is missing"),
        ({"data": [0, -1]}, r"data\[1\]: -1"),
        ({"data": [0]}, "data: "),
        ({"data": [0, 10**20]}, r"data\[1\]: 1"),
        ({"data": [0, 2 * 10**9]}, r"data\[1\]: 2000000000"),
    ],
)
def test_a_malformed_series_is_refused_by_its_place(
    content: dict[str, Any], place: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=place):
        import_series(series(tmp_path, **content), "available", 1)


def test_what_a_market_file_cannot_hold_is_not_written(tmp_path: Path) -> None:
    path = series(tmp_path, data=[0, 10**6])
    with pytest.raises(InputError, match=r"series.json: 1000000 instances of 2000 GPUs; expected"):
        import_series(path, "available", 2000)
    with pytest.raises(InputError, match="gpus_per_instance: 1000000000000"):
        import_series(path, "available", 10**12)
    changes = [change(f"2023-02-15T00:0{minute}:00Z", "8") for minute in (0, 5)]
    with pytest.raises(InputError, match=r"no change of price 600 s or more after 2023-02-15"):
        import_prices(history(tmp_path, *changes), 1, step_seconds=600)
    with pytest.raises(InputError, match=r"history.json: has no prices"):
        import_prices(history(tmp_path), 1)


def test_a_file_that_is_not_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "series.json"
    path.write_text("")
    with pytest.raises(InputError, match=r"series.json: is not valid JSON \(EOF while"):
        import_series(path, "available", 1)


def test_counts_and_prices_are_joined_by_a_recipe(tmp_path: Path) -> None:
    counts = tmp_path / "counts.csv"
    with counts.open("w") as file:
        write_trace(import_series(series(tmp_path), "available", 4), file)
    recipe = MarketRecipe(
        available=FromFile(counts), price=FixedPrice(0.9), on_demand_price=3.0, slot_seconds=300
    )
    assert read_market(recipe).available.tolist() == [0, 4, 4, 0]
