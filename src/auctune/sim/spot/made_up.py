"""The made-up market that was read off real ones: V100 instances by the half-hour.

Counts: the record of 16 instances over 16 days. Prices: those of eight zones over 90 days, all
together. benchmarks/spot_generator.py prints these parameters, and how like the records what they
make is (docs/explanation/spot-data.md).
"""

from auctune.sim.spot.generator import CountParams, MarketGenerator, PriceParams, Wave

V100_COUNTS = CountParams(
    cap=16,
    empty=0.631,
    full=0.346,
    waves=(Wave(900.0, 0.004), Wave(3600.0, 0.039), Wave(345_600.0, 0.957)),
)
V100_PRICES = PriceParams(
    floor=0.3,
    mean=0.3227,
    deviation=0.0288,
    reversion_seconds=2_592_000.0,
    smoothing_seconds=129_600.0,
    changes_per_day=4.04,
)
V100_MARKET = MarketGenerator(V100_COUNTS, V100_PRICES)
