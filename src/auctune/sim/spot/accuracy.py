"""How good forecasts of spot markets are, by how far ahead they look.

Errors of points are mean absolute ones, which the median makes least, and root mean square ones,
which the mean does: of counts that are none or all these are far apart. Those of quantiles are
the mean pinball loss over the levels,

    max(q (x - f), (q - 1) (x - f)),

doubled, so that it is the absolute error where all quantiles are one point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.numerics.arrays import Floats, Ints
from auctune.spot.forecasts import ForecastTable
from auctune.spot.market import SpotMarket


@dataclass(frozen=True, slots=True, eq=False)
class Accuracy:
    """Errors of one forecaster.

    Attributes:
        price, available: [h] mean absolute error of the points, h + 1 slots ahead, in units of
            the on-demand price and in GPUs.
        price_pinball, available_pinball: [h] doubled mean pinball loss; that of the points where
            there are no quantiles.
        price_rms, available_rms: [h] root mean square error of the points.
    """

    price: Floats
    available: Floats
    price_pinball: Floats
    available_pinball: Floats
    price_rms: Floats
    available_rms: Floats


def measure_accuracy(
    tables: Sequence[ForecastTable], markets: Sequence[SpotMarket], *, skip: int = 96
) -> Accuracy:
    """Errors over all slots of some markets, each market with the same weight.

    Args:
        tables: the forecasts made in every slot of each market.
        markets: what came.
        skip: slots at each beginning whose forecasts do not count.

    Raises:
        InputError: if a market is too short to tell.
    """
    each = [_errors(table, market, skip) for table, market in zip(tables, markets, strict=True)]
    return Accuracy(*np.mean(each, axis=0))


def _errors(table: ForecastTable, market: SpotMarket, skip: int) -> Floats:
    """[6, h]"""
    horizon = table.price.shape[1]
    made = np.arange(skip, market.num_slots - horizon)
    if not len(made):
        raise InputError(
            "market", f"{market.num_slots} slots", f"more than {skip + horizon}, to compare"
        )
    came = made[:, None] + 1 + np.arange(horizon)
    price, available = market.price[came], market.available[came]
    return np.stack(
        [
            np.abs(table.price[made] - price).mean(axis=0),
            np.abs(table.available[made] - available).mean(axis=0),
            _pinball(table.price[made], table.price_quantiles[made], table.levels, price),
            _pinball(
                table.available[made], table.available_quantiles[made], table.levels, available
            ),
            np.sqrt(np.square(table.price[made] - price).mean(axis=0)),
            np.sqrt(np.square(table.available[made] - available).mean(axis=0)),
        ]
    )


def _pinball(
    points: Floats | Ints, quantiles: Floats | Ints, levels: Floats, came: Floats | Ints
) -> Floats:
    """[h] of points and truth [t, h] and quantiles [t, h, q]."""
    if not len(levels):
        quantiles, levels = points[:, :, None], np.array([0.5])
    short = came[:, :, None] - quantiles
    losses = 2.0 * np.maximum(levels * short, (levels - 1.0) * short)
    return np.asarray(losses.mean(axis=(0, 2)))
