"""What a bidder gains by each bid it could make, beside the bid that is the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from auctune.charts.theme import LABEL_SIZE, LIGHT, AnyChart, Palette, apply_theme, inline_data

PANEL_HEIGHT = 170
TRUE_VALUE = "true value"


@dataclass(frozen=True, slots=True)
class UtilityCurve:
    """One bidder under one rule of payment.

    Attributes:
        bidder: heading of its panel.
        rule: of payment.
        value: what the task is worth to its owner, money.
        bids: rising, money.
        utilities: of each bid, money: value less payment, or 0 if rejected.
    """

    bidder: str
    rule: str
    value: float
    bids: Sequence[float]
    utilities: Sequence[float]


def utility_chart(
    curves: Sequence[UtilityCurve], palette: Palette = LIGHT, *, width: int = 720, columns: int = 2
) -> AnyChart:
    """Return a panel for each bidder: utility against the bid, a line for each rule of payment.

    Args:
        curves: panels and rules in the order in which they come.
        palette: colours.
        width: pixels of the whole chart.
        columns: panels side by side.
    """
    bidders = list(dict.fromkeys(curve.bidder for curve in curves))
    rules = list(dict.fromkeys(curve.rule for curve in curves))
    # Later lines are dashed: where two run together both can be seen.
    dashes = [[1, 0] if index == 0 else [5, 4] for index in range(len(rules))]
    legend = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=2.5, labelLimit=300)
    plot = (width - 40) // columns - 70
    panels = [
        _panel([curve for curve in curves if curve.bidder == bidder])
        .encode(
            color=alt.Color(
                "rule:N",
                scale=alt.Scale(domain=rules, range=list(palette.nodes[: len(rules)])),
                legend=legend,
            ),
            strokeDash=alt.StrokeDash(
                "rule:N", scale=alt.Scale(domain=rules, range=dashes), legend=None
            ),
        )
        .properties(width=plot, height=PANEL_HEIGHT)
        for bidder in bidders
    ]
    layered = [
        alt.layer(
            panel, *_truth(next(c.value for c in curves if c.bidder == bidder), palette)
        ).properties(title=alt.Title(bidder, fontSize=LABEL_SIZE + 1, offset=18))
        for bidder, panel in zip(bidders, panels, strict=True)
    ]
    return apply_theme(alt.concat(*layered, columns=columns, spacing=24), palette)


def _panel(curves: Sequence[UtilityCurve]) -> alt.Chart:
    values: list[dict[str, Any]] = [
        {"rule": curve.rule, "bid": bid, "utility": utility}
        for curve in curves
        for bid, utility in zip(curve.bids, curve.utilities, strict=True)
    ]
    lines: alt.Chart = (
        alt.Chart(inline_data(values))
        .mark_line(strokeWidth=2, interpolate="step-after")
        .encode(
            x=alt.X(
                "bid:Q",
                title="bid, money",
                scale=alt.Scale(domain=[0, max(value["bid"] for value in values)], nice=False),
                axis=alt.Axis(tickCount=5, grid=False),
            ),
            y=alt.Y(
                "utility:Q",
                title="utility, money",
                # Of one width, so that panels stand below each other.
                axis=alt.Axis(tickCount=4, format="~g", minExtent=44, maxExtent=44),
            ),
        )
    )
    return lines


def _truth(value: float, palette: Palette) -> list[alt.Chart]:
    data = alt.Chart(inline_data([{"bid": value, "words": TRUE_VALUE}]))
    rule = data.mark_rule(color=palette.muted, strokeWidth=1.2)
    words = data.mark_text(
        align="center", baseline="bottom", dy=-3, color=palette.muted, fontSize=LABEL_SIZE
    )
    return [
        rule.encode(x=alt.X("bid:Q")),
        words.encode(x=alt.X("bid:Q"), y=alt.value(0), text="words:N"),
    ]
