"""Data sets that bidders bring: clean ones, ones that must be repaired, and rows at sites."""

import json
import random
from collections.abc import Callable

MakeData = Callable[[random.Random], bytes]

CLEAN, MESSY, SITE_ROWS = "clean", "messy", "rows at sites"


def clean_rows(draw: random.Random) -> bytes:
    """Some conversations, all different from those of any other data set."""
    mark = draw.randrange(10**6)
    rows = (
        {
            "messages": [
                {"role": "user", "content": f"What is {n} and {mark}?"},
                {"role": "assistant", "content": f"It is {n + mark}."},
            ]
        }
        for n in range(draw.randint(6, 40))
    )
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def messy_rows(draw: random.Random) -> bytes:
    """Rows of several shapes, some twice, one cut off."""
    mark = draw.randrange(10**6)
    lines = []
    for n in range(draw.randint(4, 20)):
        question, reply = f"How much is {n} times {mark}, by and large?", f"About {n * mark}."
        shape = draw.randrange(3)
        if shape == 0:
            lines.append(json.dumps({"prompt": question, "completion": reply}))
        elif shape == 1:
            lines.append(json.dumps({"instruction": question, "output": reply})[:-1] + ",}")
        else:
            lines += [json.dumps({"prompt": question.upper(), "completion": reply})] * 2
    return "\n".join((*lines, '{"prompt": "cut off", "comple')).encode() + b"\n"
