"""A real chat model in a zone of each kind: what a job's owner gets.

    auctune base smollm2 --out out/smollm2
    auctune profile --base out/smollm2 --out out/smollm2.json
    python benchmarks/chat_model.py [--kinds auction spot timeshare edge]

In one zone after the other, a job teaches the model to read product reviews as JSON, from rows of
OpenAI's `messages`. `auctune evaluate` compares the adapter with its base on rows that neither has
seen; plain transformers and PEFT load the adapter, and answer greedily what `auctune try` answers.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import PeftModel
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "chat-model"
ZONES = EXAMPLE / "all-kinds.toml"
DATA = EXAMPLE / "data"
BASE = EXAMPLE.parent.parent / "out" / "smollm2"
PROFILE = BASE.with_suffix(".json")
AUCTUNE = [sys.executable, "-m", "auctune"]
START_SECONDS = 300
STOP_SECONDS = 60
MAX_TOKENS = 48
# Of the base's validation loss, which the adapter's is at most.
GOAL = 0.5
PROMPTS = (
    "Read this review as JSON: The lamp came broken, and nobody answers my messages.",
    "Read this review as JSON: This tent is light and dry, and I would buy it again.",
    "Read this review as JSON: My chair does what it should, for a fair price.",
)
SETTINGS = ("rank=8", "learning_rate=0.001", "batch_size=4")
ROWS = str(DATA / "reviews.jsonl")
UNSEEN = str(DATA / "reviews-validation.jsonl")
EPOCHS = ("--set", "epochs=2")
TERMS = {
    "auction": (ROWS, *EPOCHS, "--set", "share=1", "--bid", "40", "--deadline", "+10m"),
    "spot": (ROWS, *EPOCHS, "--value", "40@+10m..+20m", "--max-cost", "40"),
    "timeshare": (ROWS, "--target-loss", "0.1", "--max-cost", "40", "--deadline", "+15m"),
    "edge": ("--site", f"north={ROWS}", *EPOCHS, "--bid", "40", "--deadline", "+10m"),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What a job's owner got in a zone."""

    kind: str
    seconds: float
    base_loss: float
    adapter_loss: float
    base_accuracy: float
    adapter_accuracy: float
    same_answers: int


def main() -> int:
    """Run the zones; return 1 if one of them misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kinds", nargs="+", choices=TERMS, default=list(TERMS))
    kinds = parser.parse_args().kinds
    for path in (BASE, PROFILE):
        if not path.exists():
            print(f"{path} does not exist; it is made as described in {__file__}", file=sys.stderr)
            return 2
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            results.append(run_zone(kind, Path(folder) / kind))
            print_results(results)
    return 0 if all(map(reaches_goal, results)) else 1


def run_zone(kind: str, folder: Path) -> Result:
    """Serve one zone; train, evaluate and load an adapter in it."""
    print(f"\n# a zone of kind {kind}", flush=True)
    folder.mkdir()
    config = folder / "auctune.toml"
    config.write_text(zone_text(kind))
    here = ["--data", str(folder / "data")]
    serve = [*AUCTUNE, "serve", "--config", str(config), "--port", "0", *here]
    service = subprocess.Popen(serve)
    try:
        wait_until_serving(service, folder / "data" / "url")
        started = time.monotonic()
        settings = [word for setting in SETTINGS for word in ("--set", setting)]
        submitted = auctune("submit", *TERMS[kind], *settings, "--json", *here)
        job = json.loads(submitted)["id"]
        subprocess.run([*AUCTUNE, "watch", job, *here], check=True)
        seconds = time.monotonic() - started
        found = json.loads(auctune("evaluate", job, UNSEEN, "--answers", "0", "--json", *here))
        adapter = folder / "adapter"
        auctune("fetch", job, "--out", str(adapter), *here)
        tried = [
            auctune("try", job, prompt, "--max-tokens", str(MAX_TOKENS), *here).strip()
            for prompt in PROMPTS
        ]
    finally:
        service.terminate()
        service.wait(STOP_SECONDS)
    loaded = plain_answers(adapter)
    for prompt, answer in zip(PROMPTS, tried, strict=True):
        print(f"  {prompt}\n    {answer}")
    return Result(
        kind,
        seconds,
        found["base"]["loss"],
        found["adapter"]["loss"],
        found["base"]["token_accuracy"],
        found["adapter"]["token_accuracy"],
        sum(one == other for one, other in zip(tried, loaded, strict=True)),
    )


def zone_text(kind: str) -> str:
    """Return the example's configuration with one zone only, its paths absolute."""
    _, *zones = ZONES.read_text().split("[[zones]]\n")
    (text,) = (zone for zone in zones if f'name = "{kind}"\n' in zone)
    for name in ("../../out/smollm2", "../../out/smollm2.json", "../spot/market.csv"):
        text = text.replace(f'"{name}"', f'"{(EXAMPLE / name).resolve()}"')
    return f"[[zones]]\n{text}"


def wait_until_serving(service: "subprocess.Popen[bytes]", url: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while not url.exists():
        if service.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the service did not start")
        time.sleep(0.2)


def auctune(*arguments: str) -> str:
    """Run a command; return what it prints."""
    done = subprocess.run([*AUCTUNE, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"auctune {arguments[0]} exited with {done.returncode}: {done.stdout}")
    return done.stdout


def plain_answers(adapter: Path) -> list[str]:
    """Answer the prompts greedily, by transformers and PEFT alone."""
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(BASE), str(adapter))
    answers = []
    for prompt in PROMPTS:
        chat = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        with torch.no_grad():
            ids = model.generate(**chat, do_sample=False, max_new_tokens=MAX_TOKENS)
        new = ids[0, chat["input_ids"].shape[1] :]
        answers.append(tokenizer.decode(new, skip_special_tokens=True).strip())
    return answers


def reaches_goal(result: Result) -> bool:
    """Return whether the loss fell enough, and all answers are the same."""
    return result.adapter_loss <= GOAL * result.base_loss and result.same_answers == len(PROMPTS)


def print_results(results: list[Result]) -> None:
    title = f"SmolLM2-135M on a CPU; goal: loss <= {GOAL:g} of the base's, same answers"
    table = Table("kind", "s", "loss", "token accuracy", "same answers", "reached", title=title)
    for result in results:
        table.add_row(
            result.kind,
            f"{result.seconds:.0f}",
            f"{result.base_loss:.3f} -> {result.adapter_loss:.3f}",
            f"{result.base_accuracy:.1%} -> {result.adapter_accuracy:.1%}",
            f"{result.same_answers} of {len(PROMPTS)}",
            "yes" if reaches_goal(result) else "no",
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
