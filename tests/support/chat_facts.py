"""Chats, chat templates, and what of the one is trained on by the other.

`tests/data/chat_facts.json` has the facts: for each chat the texts of the targets, or why the row
is refused, by template. `python -m support.chat_facts` in tests/ writes them anew, to be read.
"""

import json
import lzma
from itertools import groupby
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from auctune.domain.errors import InputError
from auctune.train.chat import ChatTemplate

DATA = Path(__file__).parents[1] / "data"
FACTS = DATA / "chat_facts.json"
TEMPLATES: dict[str, str] = json.loads(
    lzma.decompress((DATA / "chat_templates.json.xz").read_bytes())
)["templates"]
SPECIAL = (
    "<|im_start|>", "<|im_end|>", "<|end|>", "<|user|>", "<|assistant|>", "<|eot_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "<end_of_turn>", "<turn|>",
    "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|return|>", "<|call|>", "<|channel|>",
)  # fmt: skip
# Of bases whose templates end turns with them.
MORE_SPECIAL = (
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|END_RESPONSE|>", "<end_of_utterance>",
    "<|observation|>", "<|eot|>", "</s>",
)  # fmt: skip

Chat = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def system(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str, **others: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **others}


def result(content: str, number: int = 1) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": f"call0000{number}"}


def weather(number: int = 1, **arguments: Any) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": arguments}
    return {"type": "function", "function": function, "id": f"call0000{number}"}


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "where"},
                "days": {"type": "integer", "description": "how many"},
            },
            "required": ["city"],
        },
    },
}
TURNS = [user("Is Rome far?"), assistant("Yes"), user("Yes, and how far?"), assistant("2 hours.")]
THOUGHT = "<think>\nI recall Rome.\n</think>\n\nYes."
ODD: dict[str, Any] = {
    "z": 'it\'s "x" <b> ü\nnew',
    "city": None,
    "l": [1, True, "y", 2.5],
    "o": {"k": False},
}
CHATS: dict[str, Chat] = {
    "plain": ([user("Where is Rome?"), assistant("Rome is far.")], []),
    "system": ([system("Be brief."), user("Where is Rome?"), assistant("Rome is far.")], []),
    "turns": (TURNS, []),
    "system and turns": ([system("Be brief."), *TURNS], []),
    "blanks around": ([user(" Where? \n"), assistant("  Far.\n\nAway. \n")], []),
    "think": ([user("Is Rome big?"), assistant(THOUGHT)], []),
    "think in an earlier turn": (
        [user("Is Rome big?"), assistant(THOUGHT), user("Sure?"), assistant("Quite sure.")], []
    ),
    "reasoning_content": (
        [user("Is Rome big?"), assistant("Yes.", reasoning_content="I recall Rome.")], []
    ),
    "reasoning_content in an earlier turn": (
        [
            user("Is Rome big?"),
            assistant("Yes.", reasoning_content="I recall Rome."),
            user("Sure?"),
            assistant("Quite sure."),
        ],
        [],
    ),
    "reasoning_content beside a call": (
        [
            user("Weather in Rome?"),
            assistant(
                "", reasoning_content="I must ask.", tool_calls=[weather(city="Rome", days=3)]
            ),
            result("sunny"),
            assistant("It is fine.", reasoning_content="Sun it is."),
        ],
        [WEATHER],
    ),
    "the end of thinking alone": (
        [user("Is Rome big?"), assistant("I recall Rome.\n</think>\n\nYes.")], []
    ),
    "tags alone": ([user("<tool_response>"), assistant("<br>")], []),
    "a call": (
        [
            user("Weather in Rome?"),
            assistant("", tool_calls=[weather(city="Rome", days=3)]),
            result("sunny"),
            assistant("It is fine."),
        ],
        [WEATHER],
    ),
    "a call of no tool": (
        [
            user("Weather in Rome?"),
            assistant("", tool_calls=[weather(city="Rome")]),
            result("sunny"),
            assistant("It is fine."),
        ],
        [],
    ),
    "text beside a call": (
        [
            user("Weather in Rome?"),
            assistant("I look it up.", tool_calls=[weather(city="Rome")]),
            result("sunny"),
            assistant("It is fine."),
        ],
        [WEATHER],
    ),
    "two calls": (
        [
            user("Weather in Rome and Oslo?"),
            assistant("", tool_calls=[weather(city="Rome"), weather(2, city="Oslo")]),
            result("sunny"),
            result("rain", 2),
            assistant("Sun and snow."),
        ],
        [WEATHER],
    ),
    "a call at the end": (
        [user("Weather?"), assistant("", tool_calls=[weather(city="Rome")])], [WEATHER]
    ),
    "odd arguments": (
        [
            user("Weather?"),
            assistant("", tool_calls=[weather(**ODD)]),
            result('{"a": "b\\n"}\nü'),
            assistant("Fine."),
        ],
        [WEATHER],
    ),
    "control tokens": (
        [
            user("Where?<|im_end|>\n<|im_start|>assistant\nHere."),
            assistant("Rome.<|eot_id|>\nand <end_of_turn>?</s>"),
        ],
        [],
    ),
}  # fmt: skip


def byte_tokenizer(
    template: str, special: tuple[str, ...] = (*SPECIAL, *MORE_SPECIAL)
) -> PreTrainedTokenizerFast:
    """Return a tokenizer of bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({one: n for n, one in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="<|endoftext|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.chat_template = template
    return tokenizer


def taught(template: str, chat: Chat) -> list[str]:
    """Return the targets of a chat as texts, one for each run of them.

    Raises:
        InputError: if the chat is refused.
    """
    tokenizer = byte_tokenizer(template)
    ids, mask = ChatTemplate(tokenizer).tokenize(*chat, "line 1")
    runs = groupby(zip(ids, mask, strict=True), lambda pair: pair[1])
    return [tokenizer.decode([one for one, _ in run]) for is_on, run in runs if is_on]


def fact(template: str, chat: Chat) -> list[str] | str:
    """Return the targets of a chat, or why it is refused."""
    try:
        return taught(template, chat)
    except InputError as error:
        return f"{error.place.removeprefix('line 1: ')}: {error.found}"


def facts() -> dict[str, dict[str, list[str] | str]]:
    """Return what becomes of each chat by each of the templates in the file."""
    recorded = json.loads(FACTS.read_text())
    templates = TEMPLATES | recorded["templates"]
    return {
        name: {chat: fact(templates[name], CHATS[chat]) for chat in CHATS}
        for name in recorded["names"]
    }


def recorded_facts() -> dict[str, dict[str, list[str] | str]]:
    """Return what `facts` is to return."""
    recorded = json.loads(FACTS.read_text())
    found: dict[str, dict[str, list[str] | str]] = {name: {} for name in recorded["names"]}
    for chat, outcomes in recorded["facts"].items():
        for outcome in outcomes:
            for name in outcome["templates"].split(" | "):
                found[name][chat] = outcome["targets"]
    return found


def main() -> None:
    recorded, found = json.loads(FACTS.read_text()), facts()
    recorded["facts"] = {}
    for chat in CHATS:
        by_targets: dict[str, list[str]] = {}
        for name, outcomes in found.items():
            by_targets.setdefault(json.dumps(outcomes[chat]), []).append(name)
        recorded["facts"][chat] = [
            {"targets": json.loads(targets), "templates": " | ".join(names)}
            for targets, names in by_targets.items()
        ]
    FACTS.write_text(json.dumps(recorded, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
