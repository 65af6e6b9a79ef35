"""Ways of renting by deadline side by side, beside what could have been had."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from auctune.charts.palette import LIGHT, Palette
from auctune.charts.theme import CHARACTER_WIDTH, LABEL_SIZE, AnyChart, apply_theme, inline_data

ROW_HEIGHT = 30
# Wider than names elsewhere: policies differ in their parameters, which stand at their ends.
_MOST_NAME = 260


@dataclass(frozen=True, slots=True)
class Rival:
    """One policy.

    Attributes:
        name: as it is shown, different from the others'.
        utility, low, high: mean, and its interval's ends.
        on_time: share of the jobs.
    """

    name: str
    utility: float
    low: float
    high: float
    on_time: float


def spot_rivals_chart(
    rivals: Sequence[Rival], optimum: float, palette: Palette = LIGHT, *, width: int = 720
) -> AnyChart:
    """A bar of mean utility a policy with its interval; the optimum as a line.

    Args:
        rivals: from the top down; at least one.
        optimum: mean utility of the offline optimum.
        palette: colours.
        width: pixels of the whole chart.
    """
    if not rivals:
        raise ValueError("no policy to draw; expected one at least")
    data = inline_data([_row(rival) for rival in rivals])
    names = [rival.name for rival in rivals]
    longest = int(min(_MOST_NAME, 12 + CHARACTER_WIDTH * max(map(len, names))))
    y = alt.Y(
        "name:N", sort=names, axis=alt.Axis(title=None, labelLimit=longest), scale=alt.Scale()
    )
    x = alt.X("utility:Q", title="mean utility, GPU-slots on demand", axis=alt.Axis(tickCount=6))
    base = alt.Chart(data).encode(y=y)
    bars = base.mark_bar(color=palette.accent, height={"band": 0.62}).encode(
        x=x, description="description:N"
    )
    spread = base.mark_rule(color=palette.ink, strokeWidth=1.6).encode(x="low:Q", x2="high:Q")
    share = base.mark_text(
        align="left", dx=10, color=palette.muted, fontSize=LABEL_SIZE, clip=False
    ).encode(x=alt.value(width - longest - 120), text="label:N")
    best = inline_data([{"utility": optimum, "words": f"optimum {optimum:,.2f}"}])
    line = alt.Chart(best).mark_rule(color=palette.warning, strokeDash=[5, 4], strokeWidth=1.4)
    words = alt.Chart(best).mark_text(
        align="right", baseline="bottom", dy=-5, color=palette.warning, fontSize=LABEL_SIZE
    )
    layered = alt.layer(
        bars,
        spread,
        share,
        line.encode(x="utility:Q"),
        words.encode(x="utility:Q", y=alt.value(0), text="words:N"),
    )
    sized = layered.properties(width=width - longest - 120, height=ROW_HEIGHT * len(rivals))
    return apply_theme(sized, palette)


def _row(rival: Rival) -> dict[str, Any]:
    return {
        "name": rival.name,
        "utility": rival.utility,
        "low": rival.low,
        "high": rival.high,
        "label": f"{rival.on_time:.0%} on time",
        "description": f"{rival.name}: utility {rival.utility:.2f} "
        f"({rival.low:.2f} to {rival.high:.2f}), {rival.on_time:.1%} on time",
    }
