"""`auctune spot import`: what a file does not say is asked for."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, list[str]]]
NO_PRICES = "no prices: use it with --prices or --fixed-price"


@pytest.fixture
def series(tmp_path: Path) -> Path:
    path = tmp_path / "series.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 300}, "data": [0, 2, 1, 0]}))
    return path


def test_a_series_becomes_a_market_file(auctune: Run, series: Path, tmp_path: Path) -> None:
    out = tmp_path / "market.csv"
    code, shown, errors = auctune(
        "spot", "import", "--series", series, "--counts", "unavailable", "--instances", "2",
        "--gpus", "8", "--out", out,
    )  # fmt: skip
    assert (code, errors) == (0, [])
    assert shown == f"{out}: 4 lines of 300 s, 10.00 GPUs on average, {NO_PRICES}\n"
    assert out.read_text() == "t_s,available,price\n0,16,\n300,0,\n600,8,\n900,16,\n"


def test_a_price_history_becomes_a_market_file(auctune: Run, tmp_path: Path) -> None:
    history, out = tmp_path / "history.json", tmp_path / "prices.csv"
    common = {"AvailabilityZone": "a", "InstanceType": "p3", "ProductDescription": "Linux/UNIX"}
    times = {"2023-02-15T00:00:00+00:00": "8.0", "2023-02-15T00:10:00+00:00": "4.0"}
    changes = [common | {"Timestamp": time, "SpotPrice": price} for time, price in times.items()]
    history.write_text(json.dumps({"SpotPriceHistory": changes}))
    code, shown, errors = auctune(
        "spot", "import", "--prices", history, "--gpus", "8", "--out", out,
        "--start", "2023-02-15T00:05",
    )  # fmt: skip
    assert (code, errors) == (0, [])
    assert shown == f"{out}: 2 lines of 300 s, mean price 0.7500\n"
    assert out.read_text() == "t_s,available,price\n0,,1\n300,,0.5\n"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ((), "--series: is missing; expected one of --series and --prices"),
        (
            ("--series", "X", "--counts", "unavailable"),
            "series.json is 2; expected available, or --instances of 2 or more",
        ),
        (("--series", "X"), "--counts: is missing; expected one of available, unavailable"),
        (("--series", "X", "--counts", "1"), "--counts: '1'; expected one of available"),
        (("--series", "X", "--counts", "available", "--gpus", "0"), "--gpus: 0; expected"),
        (("--series", "X", "--zone", "a"), "--zone: cannot be combined with --series"),
        (("--series", "X", "--step", "60"), "--step: cannot be combined with --series"),
        (
            ("--series", "X", "--counts", "available", "--instances", "4"),
            "--instances: cannot be combined with --counts available",
        ),
        (("--prices", "X", "--start", "noon"), "--start: 'noon'; expected a time such as"),
        (("--prices", "X"), "series.json: SpotPriceHistory: is missing"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(
    auctune: Run, series: Path, tmp_path: Path, more: tuple[str, ...], error: str
) -> None:
    named = [series if text == "X" else text for text in more]
    out = tmp_path / "market.csv"
    code, shown, errors = auctune("spot", "import", "--gpus", "1", "--out", out, *named)
    assert (code, shown, len(errors)) == (2, "", 1)
    assert error in errors[0]
    assert not out.exists()
