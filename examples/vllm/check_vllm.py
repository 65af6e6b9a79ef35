"""Check that vLLM answers with adapters as PEFT does: docs/how-to/serve-with-vllm.md.

    python check_vllm.py reference ADAPTER ROWS.jsonl OUT.json     # in auctune's environment
    python check_vllm.py compare OUT.json...                       # in vLLM's environment

`reference` answers each row of chat data greedily, in float32. `compare` runs the adapters of all
references in one batch of vLLM, in float32 too, and prints for each adapter:

- positions: tokens of the reference's answers; equal: those that are vLLM's greedy choice after the
  prompt and the reference's tokens before it, so that a difference does not cascade;
- answers; same: those that vLLM generates without a difference; base: those that it generates
  without a difference from the base alone, few if the adapter does anything.

The exit code is 1 if less than 99% of an adapter's positions are equal.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

REQUIRED_SHARE = 0.99
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that vLLM takes as `max_lora_rank`."""


class Answer(TypedDict):
    """A prompt and the greedy answer to it, as tokens."""

    prompt: list[int]
    tokens: list[int]


class Reference(TypedDict):
    """Answers of an adapter on its base."""

    adapter: str
    base: str
    rank: int
    answers: list[Answer]


@dataclass(frozen=True, slots=True)
class Prefix:
    """Tokens to be continued.

    Attributes:
        adapter: its number, from 1; 0: the base alone.
        tokens: of the prompt and the answer so far.
        max_tokens: to generate.
    """

    adapter: int
    tokens: list[int]
    max_tokens: int


def write_reference(
    adapter: Path, base: str | None, rows: Path, out: Path, max_tokens: int
) -> None:
    """Answer rows by transformers and PEFT, and write the tokens to a file."""
    import torch
    from peft import PeftConfig, PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    config = PeftConfig.from_pretrained(adapter)
    base = base or config.base_model_name_or_path
    tokenizer = AutoTokenizer.from_pretrained(base)
    plain = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = PeftModel.from_pretrained(plain, adapter).eval()
    answers: list[Answer] = []
    for line in rows.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        prompt = tokenizer.apply_chat_template(
            row["messages"][:-1],
            tools=row.get("tools"),
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
        )
        length = prompt["input_ids"].shape[1]
        with torch.inference_mode():
            generated = model.generate(
                **prompt, max_new_tokens=max_tokens, do_sample=False, repetition_penalty=1.0
            )
        ids = generated[0].tolist()
        answers.append(Answer(prompt=ids[:length], tokens=ids[length:]))
    reference = Reference(adapter=str(adapter.resolve()), base=base, rank=config.r, answers=answers)
    out.write_text(json.dumps(reference), encoding="utf-8")
    print(f"{out}: {len(answers)} answers, {sum(len(one['tokens']) for one in answers)} tokens")


def compare(references: Sequence[Reference], base: str) -> bool:
    """Compare references with vLLM, print a table, and return whether all are equal enough."""
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest

    answers = [one for reference in references for one in reference["answers"]]
    rank = max(one["rank"] for one in references)
    llm = LLM(
        base,
        dtype="float32",
        max_model_len=max(len(one["prompt"]) + len(one["tokens"]) for one in answers),
        enforce_eager=True,
        enable_lora=True,
        max_loras=len(references),
        max_lora_rank=min(one for one in LORA_RANKS if one >= rank),
    )

    def generate(prefixes: Sequence[Prefix]) -> list[list[int]]:
        outputs = llm.generate(
            [{"prompt_token_ids": one.tokens} for one in prefixes],
            [SamplingParams(temperature=0, max_tokens=one.max_tokens) for one in prefixes],
            lora_request=[
                LoRARequest(str(one.adapter), one.adapter, references[one.adapter - 1]["adapter"])
                if one.adapter
                else None
                for one in prefixes
            ],
        )
        return [list(output.outputs[0].token_ids) for output in outputs]

    cases = [
        (number, answer)
        for number, reference in enumerate(references, 1)
        for answer in reference["answers"]
    ]
    different = count_differences(cases, generate)
    alone = generate([Prefix(0, one["prompt"], len(one["tokens"])) for _, one in cases])
    print("positions   equal    share   answers    same    base   rank   adapter")
    passed = True
    for number, reference in enumerate(references, 1):
        mine = [index for index, (adapter, _) in enumerate(cases) if adapter == number]
        positions = sum(len(cases[index][1]["tokens"]) for index in mine)
        equal = positions - sum(different[index] for index in mine)
        same = sum(different[index] == 0 for index in mine)
        base_same = sum(alone[index] == cases[index][1]["tokens"] for index in mine)
        print(
            f"{positions:9}{equal:8}{equal / positions:9.2%}{len(mine):10}{same:8}{base_same:8}"
            f"{reference['rank']:7}   {reference['adapter']}"
        )
        passed &= equal >= REQUIRED_SHARE * positions
    return passed


def count_differences(
    cases: Sequence[tuple[int, Answer]], generate: Callable[[Sequence[Prefix]], list[list[int]]]
) -> list[int]:
    """Return for each answer at how many positions the greedy choice is another token.

    Generation goes on with the reference's token after each difference. The logprobs of a prompt's
    tokens would need one pass alone, but vLLM computes them without an adapter's output layer, or
    not at all (its issues 16668 and 51594).
    """
    different = [0] * len(cases)
    done = [0] * len(cases)
    while pending := [
        index for index, (_, one) in enumerate(cases) if done[index] < len(one["tokens"])
    ]:
        prefixes = []
        for index in pending:
            adapter, one = cases[index]
            known = one["tokens"][: done[index]]
            prefixes.append(Prefix(adapter, one["prompt"] + known, len(one["tokens"]) - len(known)))
        for index, found in zip(pending, generate(prefixes), strict=True):
            wanted = cases[index][1]["tokens"][done[index] :]
            equal = 0
            while equal < len(found) and found[equal] == wanted[equal]:
                equal += 1
            done[index] += equal
            if equal < len(wanted):
                different[index] += 1
                done[index] += 1
    return different


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("reference", help="answer rows by transformers and PEFT")
    writing.add_argument("adapter", type=Path, help="folder in PEFT's format")
    writing.add_argument("rows", type=Path, help="JSONL file of chat rows")
    writing.add_argument("out", type=Path, help="file to write")
    writing.add_argument("--max-tokens", type=int, default=64, help="of an answer (64)")
    comparing = commands.add_parser("compare", help="compare references with vLLM")
    comparing.add_argument("references", type=Path, nargs="+", help="files of `reference`")
    for command, default in ((writing, "as in training"), (comparing, "as in the references")):
        command.add_argument("--base", help=f"folder or hub name of the base; default: {default}")
    given = parser.parse_args()
    if given.command == "reference":
        write_reference(given.adapter, given.base, given.rows, given.out, given.max_tokens)
        return 0
    references: list[Reference] = [json.loads(path.read_text()) for path in given.references]
    for path, reference in zip(given.references, references, strict=True):
        if reference["rank"] > LORA_RANKS[-1]:
            parser.error(f"{path}: rank {reference['rank']}; vLLM takes at most {LORA_RANKS[-1]}")
    bases = {given.base} if given.base else {one["base"] for one in references}
    if len(bases) > 1:
        parser.error(f"references of several bases: {', '.join(sorted(bases))}; expected one")
    return 0 if compare(references, bases.pop()) else 1


if __name__ == "__main__":
    sys.exit(main())
