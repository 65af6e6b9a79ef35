"""Regenerate the data sets of this example: `python examples/first-market/make_data.py`.

Eight synthetic data sets with different kinds of text. One needs a repair: it has several names of
the same columns, invalid JSON, duplicates and empty rows.
"""

import json
import random
from pathlib import Path

DATA = Path(__file__).parent / "data"
CITIES = ("Lisbon", "Oslo", "Nairobi", "Quito", "Hanoi", "Perth", "Leeds", "Osaka", "Accra", "Lima")
SKIES = ("clear", "cloudy", "rainy", "windy", "foggy", "stormy")
DISHES = ("lentil soup", "rye bread", "plum cake", "rice salad", "bean stew", "corn pancakes")
PARTS = ("valve", "rotor", "filter", "gasket", "bearing", "sensor")
PLANTS = ("basil", "fern", "cactus", "ivy", "orchid", "mint")

Row = dict[str, object]


def weather(rng: random.Random) -> Row:
    city, sky, degrees = rng.choice(CITIES), rng.choice(SKIES), rng.randint(-5, 35)
    wear = "a warm coat" if degrees < 10 else "a light jacket" if degrees < 20 else "a shirt"
    return {
        "prompt": f"Weather report for {city}: {sky}, {degrees} degrees.\nAdvice:",
        "completion": f" It is {sky} in {city}. Wear {wear}.",
    }


def support(rng: random.Random) -> Row:
    part, days = rng.choice(PARTS), rng.randint(2, 9)
    return {
        "messages": [
            {"role": "system", "content": "You answer for the spare parts desk."},
            {"role": "user", "content": f"Where is the {part} that I ordered?"},
            {
                "role": "assistant",
                "content": f"Your {part} left our store and arrives in {days} days.",
            },
        ]
    }


def recipes(rng: random.Random) -> Row:
    dish, minutes = rng.choice(DISHES), 5 * rng.randint(2, 12)
    return {"text": f"To make {dish}, heat the pan, stir well, and wait {minutes} minutes."}


def sums(rng: random.Random) -> Row:
    a, b = rng.randint(1, 20), rng.randint(1, 20)
    return {"prompt": f"Add {a} and {b}.", "completion": f" The sum is {a + b}."}


def mood(rng: random.Random) -> Row:
    good = rng.random() < 0.5
    word = rng.choice(("lovely", "fine", "superb") if good else ("dull", "broken", "awful"))
    thing = rng.choice(("film", "meal", "trip", "book", "show"))
    return {
        "prompt": f"Review: the {thing} was {word}.\nMood:",
        "completion": " positive" if good else " negative",
    }


def garden(rng: random.Random) -> Row:
    plant, times = rng.choice(PLANTS), rng.randint(1, 5)
    return {
        "messages": [
            {"role": "user", "content": f"How often should I water my {plant}?"},
            {"role": "assistant", "content": f"Water the {plant} {times} times a week."},
        ]
    }


def travel(rng: random.Random) -> Row:
    a, b = rng.sample(CITIES, 2)
    return {"text": f"The night train from {a} to {b} leaves at {rng.randint(18, 23)} o'clock."}


def messy(rng: random.Random) -> list[str]:
    """Return lines with mixed schemas, invalid JSON, duplicates and empty rows."""
    lines = []
    for number in range(90):
        part, code = rng.choice(PARTS), 100 + number
        ask, answer = f"What is code {code}?", f"Code {code} is a worn {part}."
        style = number % 6
        if style == 0:
            lines.append(json.dumps({"question": ask, "answer": answer}))
        elif style == 1:
            lines.append(json.dumps({"instruction": ask, "output": answer}))
        elif style == 2:
            lines.append(str({"prompt": ask, "completion": answer}))
        elif style == 3:
            lines.append(json.dumps({"prompt": ask, "completion": answer})[:-1] + ",}")
        elif style == 4:
            lines += [json.dumps({"prompt": ask, "completion": answer})] * 2
        else:
            lines.append(json.dumps({"prompt": ask, "completion": "  "}))
    lines.insert(7, "--- page 2 ---")
    return lines


def main() -> None:
    """Write all files."""
    DATA.mkdir(exist_ok=True)
    data_sets = {
        "weather": (weather, 240),
        "support": (support, 200),
        "recipes": (recipes, 160),
        "sums": (sums, 320),
        "mood": (mood, 300),
        "garden": (garden, 180),
        "travel": (travel, 240),
    }
    for name, (make, count) in data_sets.items():
        rng = random.Random(name)
        lines = [json.dumps(make(rng)) for _ in range(count)]
        (DATA / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        held_out = [json.dumps(make(rng)) for _ in range(24)]
        if name == "weather":
            (DATA / "weather-validation.jsonl").write_text("\n".join(held_out) + "\n")
    (DATA / "messy.jsonl").write_text("\n".join(messy(random.Random("messy"))) + "\n")


if __name__ == "__main__":
    main()
