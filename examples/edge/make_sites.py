"""Write the data of the edge examples: a file per site, and one for validation.

python examples/edge/make_sites.py FOLDER
"""

import json
import random
import sys
from pathlib import Path

ROWS = {"north": 120, "south": 120, "harbour": 63, "station": 75, "validation": 24}
SKIES = ("rain", "snow", "sun", "wind")


def main(folder: Path) -> None:
    """Write conversations in the format of OpenAI's API."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in ROWS.items():
        rng = random.Random(name)
        path = folder / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(row(rng, name))}\n" for _ in range(count)))
        print(path)


def row(rng: random.Random, place: str) -> dict[str, list[dict[str, str]]]:
    """Return a question about the weather at a place, and its answer."""
    day, sky = rng.randint(1, 28), rng.choice(SKIES)
    question = f"How is the weather in the {place} on day {day} with {sky} in the morning?"
    answer = f"On day {day} there is {sky} and {day} degrees."
    messages = (("user", question), ("assistant", answer))
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
