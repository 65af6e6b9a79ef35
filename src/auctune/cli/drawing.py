"""Charts of commands, as files in a folder."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart


def render_into(folder: Path, drawn: "Mapping[str, Callable[[], AnyChart]]") -> dict[Path, bytes]:
    """Contents of charts by the paths that they go to, as SVG and PNG; makes the folder.

    Args:
        folder: where they go.
        drawn: charts by the names of their files.

    Raises:
        InputError: if the folder cannot be made.
    """
    from auctune.charts.palette import LIGHT
    from auctune.charts.render import to_png, to_svg
    from auctune.domain.errors import InputError

    contents: dict[Path, bytes] = {}
    for name, draw in drawn.items():
        # A file may be shown on any ground.
        chart = draw().properties(background=LIGHT.surface)
        contents[folder / f"{name}.svg"] = to_svg(chart).encode()
        contents[folder / f"{name}.png"] = to_png(chart)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = f"cannot be made ({error.strerror})"
        raise InputError(str(folder), found, "a folder for charts") from None
    return contents
