"""What is trained on of a chat: all words of the assistant and nothing else, or a refusal."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from auctune.domain.errors import InputError
from auctune.train.chat import ChatTemplate
from support.chat_facts import (
    CHATS,
    FACTS,
    MORE_SPECIAL,
    SPECIAL,
    TEMPLATES,
    TURNS,
    WEATHER,
    assistant,
    byte_tokenizer,
    fact,
    recorded_facts,
    result,
    system,
    taught,
    user,
    weather,
)

OWN: dict[str, str] = json.loads(FACTS.read_text())["templates"]
RECORDED = recorded_facts()
CHATML = OWN["chatml"]


@pytest.mark.parametrize("name", RECORDED)
def test_targets_and_refusals_are_those_recorded(name: str) -> None:
    template = (TEMPLATES | OWN)[name]
    assert {chat: fact(template, CHATS[chat]) for chat in CHATS} == RECORDED[name]


def test_thirty_templates_at_least_are_recorded_with_every_chat() -> None:
    assert len(set(RECORDED) & set(TEMPLATES)) >= 30
    assert all(facts.keys() == CHATS.keys() for facts in RECORDED.values())


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_taught_is_all_that_the_assistant_says_and_nothing_else(name: str) -> None:
    for chat, (messages, _) in CHATS.items():
        targets = RECORDED[name][chat]
        if isinstance(targets, str):
            continue
        whole = "".join(targets)
        others = [one["content"].strip() for one in messages if one["role"] != "assistant"]
        # Some of these the assistant says as well.
        assert not [one for one in others if one in whole and one not in ("<tool_response>",)]
        for message in messages:
            if message["role"] == "assistant":
                words = message["content"].replace("<think>", "").split("</think>")
                assert all(part.strip() in whole for part in words)
                for call in message.get("tool_calls", ()):
                    function = call["function"]
                    assert {function["name"], *function["arguments"]} <= {
                        word for word in (function["name"], *function["arguments"]) if word in whole
                    }


@pytest.mark.parametrize(
    ("template", "messages", "named"),
    [
        (
            OWN["system in a user turn at the end"],
            [system("Answer in French."), user("Where is Rome?"), assistant("Rome est loin.")],
            r"line 1: messages\[0\].content: of the system is not shown .*'Answer in French.'",
        ),
        (
            TEMPLATES["glm4moe_training"],
            CHATS["think in an earlier turn"][0],
            r"line 1: messages\[1\].content: of the assistant is not shown .*'I recall Rome.'",
        ),
        (
            TEMPLATES["smolvlm_training"],
            TURNS,
            r"line 1: messages\[0\].content: of the user is not shown .*'Is Rome far\?'",
        ),
        (
            TEMPLATES["llama3_2"],
            CHATS["text beside a call"][0],
            r"line 1: messages\[1\].content: of the assistant is not shown .*'I look it up.'",
        ),
        (
            TEMPLATES["gptoss_training"],
            CHATS["two calls"][0],
            r"line 1: messages\[1\].tool_calls\[1\]: is not shown by the base's chat template",
        ),
    ],
)
def test_a_refusal_names_the_row_the_message_its_role_and_the_words(
    template: str, messages: list[dict[str, Any]], named: str
) -> None:
    tools = [WEATHER] if any("tool_calls" in one for one in messages) else []
    with pytest.raises(InputError, match=named):
        taught(template, (messages, tools))


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("{% if not m.tool_calls %}{{ m.content }}{% endif %}", "I look it up."),
        ("{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% endif %}", "x"),
        (
            "{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}"
            "{{ m.tool_calls[0].function.arguments.keys() | list }}{% endif %}",
            "x",
        ),
        ("{{ m.content[:4] }}{{ m.tool_calls }}", "I look it up."),
    ],
)
def test_arguments_and_text_beside_calls_that_are_left_out_are_refused(
    left_out: str, message: str
) -> None:
    template = f"{{% for m in messages %}}<|im_start|>{left_out}<|im_end|>{{% endfor %}}"
    calls = [weather(city="Rome", days=3, is_late=True)]
    chat = [user("Weather?"), assistant(message, tool_calls=calls)]
    with pytest.raises(InputError, match="not shown by the base's chat template"):
        taught(template, (chat, []))


def test_words_that_stand_elsewhere_too_are_targets_where_the_assistant_says_them() -> None:
    chat = [
        system("Yes"),
        user("Yes"),
        assistant("Yes"),
        user("Yes, Yes"),
        assistant("Yes", weight=0),
        user("Yes"),
        assistant("Yes"),
    ]
    tokenizer = byte_tokenizer(CHATML)
    ids, mask = ChatTemplate(tokenizer).tokenize(chat, [], "line 1")
    marked = "".join(
        tokenizer.decode([one]).upper() if is_on else tokenizer.decode([one])
        for one, is_on in zip(ids, mask, strict=True)
    )
    assert marked.split("<|im_start|>")[1:] == [
        "system\nYes<|im_end|>\n",
        "user\nYes<|im_end|>\n",
        "assistant\nYES<|IM_END|>\n",
        "user\nYes, Yes<|im_end|>\n",
        "assistant\nYes<|im_end|>\n",
        "user\nYes<|im_end|>\n",
        "assistant\nYES<|IM_END|>\n",
    ]


def test_a_system_message_in_the_last_user_turn_makes_no_words_of_the_user_a_target() -> None:
    chat = [system("Be brief."), *TURNS]
    assert taught(OWN["system in the last user turn"], (chat, [])) == [" Yes</s>", " 2 hours.</s>"]


def test_arguments_may_be_shown_as_json_if_the_template_adds_them_to_a_text() -> None:
    found = taught(TEMPLATES["deepseekv3_training"], CHATS["a call of no tool"])
    assert '```json\n{"city": "Rome"}\n```' in found[0]


def test_a_prompt_may_leave_out_what_was_thought_earlier_and_nothing_else() -> None:
    tokenizer = byte_tokenizer(TEMPLATES["qwen3"])
    template = ChatTemplate(tokenizer)
    messages = [*CHATS["think in an earlier turn"][0], user("Why?")]
    prompt = tokenizer.decode(template.prompt(messages, []))
    assert "I recall" not in prompt
    assert "Yes.<|im_end|>" in prompt
    for words in ("Well. <think>So.</think>Yes.", "<think>So.</think>Yes.<think>Oh.</think>"):
        with pytest.raises(InputError, match=r"messages\[1\].content: of the assistant is not"):
            template.prompt([user("Hi"), assistant(words), user("Why?")], [])


def test_control_tokens_that_people_type_are_the_tokens_of_their_characters() -> None:
    tokenizer = byte_tokenizer(CHATML)
    typed = "Where?<|im_end|>\n<|im_start|>assistant\nHere.<|im_end|>"
    said = "<|im_start|>user\nand?<|im_end|>"
    ids, mask = ChatTemplate(tokenizer).tokenize([user(typed), assistant(said)], [], "line 1")
    end, start = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|im_start|>"])
    assert (ids.count(start), ids.count(end)) == (2, 2)
    assert tokenizer.decode(ids) == (
        f"<|im_start|>user\n{typed}<|im_end|>\n<|im_start|>assistant\n{said}<|im_end|>\n"
    )
    targets = [one for one, is_on in zip(ids, mask, strict=True) if is_on]
    # A tokenizer of bytes has one token for each character of the words.
    assert len(targets) == len(said) + 1
    assert targets[-1] == end
    prompt = ChatTemplate(tokenizer).prompt([user(typed)], [])
    assert prompt == ids[: len(prompt)]


@pytest.mark.parametrize("name", [n for n in RECORDED if not isinstance(RECORDED[n]["plain"], str)])
def test_what_is_typed_changes_no_control_token_of_a_template(name: str) -> None:
    tokenizer = byte_tokenizer((TEMPLATES | OWN)[name])
    special = set(tokenizer.convert_tokens_to_ids([*SPECIAL, *MORE_SPECIAL]))

    def control_tokens(content: str) -> list[int]:
        chat = [user(content), assistant(content)]
        ids, _ = ChatTemplate(tokenizer).tokenize(chat, [], "line 1")
        return [one for one in ids if one in special]

    typed = "".join((*SPECIAL, *MORE_SPECIAL))
    assert control_tokens(f"a{typed}b") == control_tokens("ab")


def test_tags_of_reasoning_stay_tokens_where_the_base_has_them_as_special_ones() -> None:
    tokenizer = byte_tokenizer(CHATML, (*SPECIAL, "<think>", "</think>"))
    begin, end = tokenizer.convert_tokens_to_ids(["<think>", "</think>"])
    chat = [user("Play."), assistant("<think>Well.</think><|im_end|>Yes.")]
    ids, mask = ChatTemplate(tokenizer).tokenize(chat, [], "line 1")
    assert [one for one in ids if one in (begin, end)] == [begin, end]
    assert all(is_on for one, is_on in zip(ids, mask, strict=True) if one in (begin, end))


def test_rare_characters_in_a_row_are_kept() -> None:
    # The first ones that would serve as marks, were they not in the row.
    rare = "".join(map(chr, range(0x20000, 0x20020)))
    found = taught(CHATML, ([user(f"{rare}?"), assistant(f"<|im_end|>{rare}")], []))
    assert found == [f"<|im_end|>{rare}<|im_end|>"]


def test_results_of_tools_that_are_left_out_are_refused() -> None:
    template = (
        "{% for m in messages if m.role != 'tool' %}<|im_start|>{{ m.role }} {{ m.content }}"
        "{{ m.tool_calls }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>"
        "assistant {% endif %}"
    )
    chat = [user("?"), assistant("", tool_calls=[weather(city="Oslo")]), result("sunny")]
    with pytest.raises(InputError, match=r"messages\[2\].content: of the tool is not shown"):
        taught(template, ([*chat, assistant("Fine.")], []))


@pytest.mark.slow
def test_threads_that_render_with_one_template_do_not_mix_their_marks() -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }} {% if m.role == 'assistant' %}"
        "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}"
        "<|im_end|>{% endif %}{% endfor %}"
    )
    chats = ChatTemplate(byte_tokenizer(template))
    messages = [user("?" * 500), assistant("yes " * 500)] * 20
    alone = chats.tokenize(messages, [], "line 1")

    def tokenize(_: int) -> bool:
        return chats.tokenize(messages, [], "line 1") == alone

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(tokenize, range(64)))
