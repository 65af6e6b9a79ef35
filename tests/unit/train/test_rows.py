from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from auctune.domain import InputError
from auctune.domain.dataset import DataSet, DropCause, RowKind
from auctune.train.base import load_base
from auctune.train.rows import TokenizedDataSet, TokenizedRow, tokenize, tokenize_chunk

pytest_plugins = ["support.tiny_bases"]

LONG = 10_000


@pytest.fixture(scope="module")
def tokenizer(tiny_cache: Path) -> PreTrainedTokenizerBase:
    return load_base("tiny", cache=tiny_cache).tokenizer


@pytest.fixture(scope="module")
def metaspace() -> PreTrainedTokenizerFast:
    """A tokenizer of the Llama kind: a start token, and a space before any text."""
    vocabulary = {"<s>": 0, "</s>": 1, "▁": 2} | {chr(97 + n): 3 + n for n in range(26)}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="</s>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.decoder = decoders.Metaspace(prepend_scheme="first")
    backend.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


def learnt(row: TokenizedRow) -> list[int]:
    return [int(label) for label in row.labels if label != -100]


def completions(*rows: tuple[str, str]) -> DataSet:
    return DataSet(
        RowKind.COMPLETION, tuple({"prompt": prompt, "completion": text} for prompt, text in rows)
    )


def chat(*messages: tuple[str, str]) -> DataSet:
    row = {"messages": [{"role": role, "content": content} for role, content in messages]}
    return DataSet(RowKind.CHAT, (row,))


def only_row(dataset: DataSet, tokenizer: PreTrainedTokenizerBase) -> TokenizedRow:
    (row,) = tokenize(dataset, tokenizer, LONG).rows
    return row


def test_all_of_a_text_but_its_first_token_is_learnt(tokenizer: PreTrainedTokenizerBase) -> None:
    row = only_row(DataSet(RowKind.TEXT, ({"text": "Ada is here."},)), tokenizer)
    assert tokenizer.decode(row.input_ids) == "Ada is here.<|end|>"
    assert learnt(row) == row.input_ids[1:].tolist()
    assert row.labels[0] == -100


def test_of_a_completion_nothing_of_the_prompt_is_learnt(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    row = only_row(completions(("Say hello to Ada.", " Hello Ada")), tokenizer)
    assert tokenizer.decode(row.input_ids) == "Say hello to Ada. Hello Ada<|end|>"
    assert tokenizer.decode(learnt(row)) == " Hello Ada<|end|>"


def test_a_token_across_prompt_and_completion_is_split(tokenizer: PreTrainedTokenizerBase) -> None:
    assert len(tokenizer("hello")["input_ids"]) < len("hello")
    row = only_row(completions(("hel", "lo")), tokenizer)
    assert tokenizer.decode(learnt(row)) == "lo<|end|>"


def test_an_empty_prompt_is_allowed(tokenizer: PreTrainedTokenizerBase) -> None:
    row = only_row(completions(("", "x y")), tokenizer)
    assert tokenizer.decode(row.input_ids) == "x y<|end|>"
    assert learnt(row) == row.input_ids[1:].tolist()


def test_a_start_token_comes_first_and_no_space_is_added_in_between(
    metaspace: PreTrainedTokenizerFast,
) -> None:
    row = only_row(completions(("ab", " cd")), metaspace)
    assert metaspace.convert_ids_to_tokens(row.input_ids.tolist()) == [
        *("<s>", "▁", "a", "b", "▁", "c", "d", "</s>")
    ]
    assert metaspace.convert_ids_to_tokens(learnt(row)) == ["▁", "c", "d", "</s>"]


SPECIAL = (
    *("<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]"),
)

# The published templates, but for their checks; [[ and ]] mark what TRL's training templates and
# transformers' `{% generation %}` count as the assistant's.
TEMPLATES = {
    "llama2": "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}"
    "{% set system = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' %}"
    "{% else %}{% set rest = messages %}{% set system = '' %}{% endif %}"
    "{% for m in rest %}{% if m.role == 'user' %}"
    "{{ bos_token + '[INST] ' + (system if loop.first else '') + m.content.strip() + ' [/INST]' }}"
    "{% else %}[[{{ ' ' + m.content.strip() + ' ' + eos_token }}]]{% endif %}{% endfor %}",
    "llama3": "{% for m in messages %}{{ '<|begin_of_text|>' if loop.first else '' }}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}"
    "{% if m.role == 'assistant' %}[[{{ m.content | trim + '<|eot_id|>' }}]]"
    "{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "mistral": "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}"
    "[[{{ m.content + eos_token }}]]{{ ' ' }}"
    "{% else %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endif %}{% endfor %}",
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}[[{{ m.content + '<|im_end|>' }}]]{{ '\n' }}"
    "{% else %}{{ m.content + '<|im_end|>' + '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "gemma": "{{ bos_token }}{% for m in messages %}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"
    "{% if m.role == 'assistant' %}[[{{ m.content | trim + '<end_of_turn>' }}]]{{ '\n' }}"
    "{% else %}{{ m.content | trim + '<end_of_turn>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
    "zephyr": "{% for m in messages %}{{ '<|' + m.role + '|>\n' }}"
    "{% if m.role == 'assistant' %}[[{{ m.content + eos_token }}]]"
    "{% else %}{{ m.content + eos_token }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
}


@pytest.fixture(scope="module")
def characters() -> PreTrainedTokenizerFast:
    """A token a character, and the special tokens of all templates."""
    vocabulary = {"<s>": 0, "</s>": 1} | {chr(n): n for n in range(10, 127)}
    backend = Tokenizer(models.BPE(vocabulary, [], unk_token="</s>"))
    backend.add_special_tokens([*SPECIAL, "<s>", "</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


phrases = st.text(st.sampled_from("abc .?\n"), min_size=1, max_size=8).filter(
    lambda text: text.strip() == text
)


@given(
    st.sampled_from(sorted(TEMPLATES)),
    st.none() | phrases,
    st.lists(st.tuples(phrases, phrases, st.sampled_from([None, 0, 0, 1])), min_size=1, max_size=4),
)
def test_masks_are_those_of_the_template_with_its_generation_marked_and_weight_0_left_out(
    characters: PreTrainedTokenizerFast,
    name: str,
    system: str | None,
    turns: list[tuple[str, str, int | None]],
) -> None:
    messages: list[dict[str, Any]] = []
    if system is not None:
        messages.append({"role": "system", "content": system})
    for question, answer, weight in turns:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer})
        messages[-1] |= {} if weight is None else {"weight": weight}
    marked = TEMPLATES[name].replace("[[", "{% generation %}").replace("]]", "{% endgeneration %}")
    weighed = (
        TEMPLATES[name]
        .replace("[[", "{% set said %}")
        .replace(
            "]]",
            "{% endset %}{% if m.weight == 0 %}{{ said }}{% else %}"
            "{% generation %}{{ said }}{% endgeneration %}{% endif %}",
        )
    )
    shown = characters.apply_chat_template(messages, chat_template=marked, tokenize=False)
    expected: Any = characters.apply_chat_template(
        messages, chat_template=weighed, return_dict=True, return_assistant_tokens_mask=True
    )
    assert characters(shown, add_special_tokens=False)["input_ids"] == expected["input_ids"]
    characters.chat_template = TEMPLATES[name].replace("[[", "").replace("]]", "")
    dataset = DataSet(RowKind.CHAT, ({"messages": messages},))
    if not any(expected["assistant_masks"]):
        with pytest.raises(InputError, match="1 with weight 0 on all messages of the assistant"):
            tokenize(dataset, characters, LONG)
        return
    row = only_row(dataset, characters)
    assert row.input_ids.tolist() == expected["input_ids"]
    assert (row.labels != -100).astype(int).tolist() == expected["assistant_masks"]


def test_a_row_whose_answers_all_have_weight_0_is_dropped_and_counted_as_such(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"role": "user", "content": "hi"}
    context = {"role": "assistant", "content": "wrong", "weight": 0}
    rows = ([asked, context], [asked, context, asked, {"role": "assistant", "content": "right"}])
    dataset = DataSet(RowKind.CHAT, tuple({"messages": messages} for messages in rows))
    for template in (tokenizer.chat_template, None):
        monkeypatch.setattr(tokenizer, "chat_template", template)
        result = tokenize(dataset, tokenizer, LONG)
        assert result.dropped == {0: DropCause.WEIGHTS_ZERO}
        assert "right" in tokenizer.decode(learnt(result.rows[0]))
        assert "wrong" not in tokenizer.decode(learnt(result.rows[0]))
        assert "wrong" in tokenizer.decode(result.rows[0].input_ids)


words = st.text(st.sampled_from("abc .?<|\nüß€0 "), min_size=1, max_size=12).filter(str.strip)


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), words), max_size=6))
def test_of_a_chat_the_tokens_that_transformers_calls_the_assistants_are_learnt(
    tokenizer: PreTrainedTokenizerBase, messages: list[tuple[str, str]]
) -> None:
    dataset = chat(*messages, ("assistant", "assistant"))
    row = only_row(dataset, tokenizer)
    expected: Any = tokenizer.apply_chat_template(
        dataset.rows[0]["messages"], return_dict=True, return_assistant_tokens_mask=True
    )
    assert row.input_ids.tolist() == expected["input_ids"]
    assert (row.labels != -100).astype(int).tolist() == expected["assistant_masks"]


def test_a_template_that_strips_and_rewrites_is_followed(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Adds an empty thought to the last answer alone, so that no opening is how a chat begins.
    template = (
        "{% for m in messages %}<|turn|>{{ m.role }}: "
        "{% if m.role == 'assistant' and loop.last %}(thought) {% endif %}"
        "{{ m.content | trim }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|turn|>assistant: !{% endif %}"
    )
    monkeypatch.setattr(tokenizer, "chat_template", template)
    dataset = chat(("user", "hi"), ("assistant", " yes "), ("user", "why"), ("assistant", "so "))
    row = only_row(dataset, tokenizer)
    assert str(tokenizer.decode(learnt(row))).replace(" ", "") == "yes<|end|>so<|end|>"


def test_a_chat_that_its_template_refuses_is_named(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", "{{ raise_exception('roles alternate') }}")
    with pytest.raises(InputError, match=r"rows\[0\]: messages: refused .*roles alternate"):
        tokenize(chat(("assistant", "x")), tokenizer, LONG)


def test_a_template_that_hides_the_answer_is_an_error(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", "nothing")
    with pytest.raises(InputError, match=r"messages\[0\].content: of the assistant is not shown"):
        tokenize(chat(("assistant", "x")), tokenizer, LONG)


def test_tools_of_a_chat_need_a_template_and_the_messages_are_named(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", None)
    rows = chat(("user", "u"), ("assistant", "a"), ("tool", "t"), ("assistant", "b"))
    message = r"rows\[0\]: messages: has tools, .*; expected messages without tools, or a base"
    with pytest.raises(InputError, match=message):
        tokenize(rows, tokenizer, LONG)


def test_without_a_template_a_chat_is_lines_of_role_and_words(
    tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "chat_template", None)
    row = only_row(
        chat(("system", "s"), ("user", "u"), ("assistant", "a"), ("user", "b")), tokenizer
    )
    assert tokenizer.decode(row.input_ids) == "system: s\nuser: u\nassistant: a<|end|>user: b\n"
    assert tokenizer.decode(learnt(row)) == " a<|end|>"


def test_long_rows_are_cut_and_rows_with_nothing_to_learn_dropped_and_counted(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    dataset = completions(("a" * 50, "b"), ("a", "b" * 50), ("a", "b"))
    result = tokenize(dataset, tokenizer, 10)
    assert result.dropped == {0: DropCause.PROMPT_TOO_LONG}
    assert (result.num_truncated, result.longest) == (1, 52)
    assert [len(row) for row in result.rows] == [10, 3]
    assert result.num_tokens == 13
    assert result.mean_tokens == 6.5
    assert result.num_trained_tokens == sum(len(learnt(row)) for row in result.rows)


def test_a_pair_whose_answers_are_cut_to_the_same_is_dropped(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    question = [{"role": "user", "content": "a"}]
    answers = (("b" * 50 + "c", "b" * 50 + "d"), ("b", "c"))
    rows = tuple(
        {
            "messages": question,
            "preferred_output": {"role": "assistant", "content": better},
            "non_preferred_output": {"role": "assistant", "content": worse},
        }
        for better, worse in answers
    )
    result = tokenize(DataSet(RowKind.PREFERENCE, rows), tokenizer, 40)
    assert result.dropped == {0: DropCause.SAME_ANSWERS}
    assert len(result.rows) == 1


def test_if_nothing_is_left_to_learn_that_is_an_error(tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(InputError, match="none of 1 has a token to learn within max_length = 1"):
        tokenize(DataSet(RowKind.TEXT, ({"text": "Ada is here."},)), tokenizer, 1)


def test_prompts_that_are_too_long_are_given_a_remedy_that_their_base_allows(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    data = tokenize_chunk(completions(("a" * 50, "b")), tokenizer, 10)
    remedies = {
        None: "shorter rows, or max_length = 52 if the base reads that much",
        52: "max_length = 52, or shorter rows",
        51: "shorter rows: the base reads 51 tokens at most",
    }
    for context_tokens, remedy in remedies.items():
        with pytest.raises(InputError) as caught:
            data.check_rows(10, context_tokens)
        assert caught.value.expected == remedy


@given(
    st.lists(st.tuples(words | st.just(""), words), min_size=1, max_size=5),
    st.integers(1, 30),
)
def test_a_shorter_limit_only_ever_cuts_the_end(
    tokenizer: PreTrainedTokenizerBase, rows: list[tuple[str, str]], max_length: int
) -> None:
    whole = tokenize(completions(*rows), tokenizer, LONG)
    try:
        cut = tokenize(completions(*rows), tokenizer, max_length)
    except InputError:
        cut = TokenizedDataSet((), dict.fromkeys(range(len(rows)), DropCause.PROMPT_TOO_LONG))
    kept = [row for index, row in enumerate(whole.rows) if index not in cut.dropped]
    for row, full in zip(cut.rows, kept, strict=True):
        assert row.input_ids.tolist() == full.input_ids[:max_length].tolist()
        assert row.labels.tolist() == full.labels[:max_length].tolist()
        assert row.num_trained_tokens >= 1
    for index in cut.dropped:
        assert all(whole.rows[index].labels[:max_length] == -100)


def test_the_digest_tells_any_change_of_tokens_labels_or_order(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    variants = [
        completions(("a", "b"), ("c", "d")),
        completions(("c", "d"), ("a", "b")),
        completions(("a", "b")),
        completions(("", "b"), ("c", "d")),
        completions(("a", "bc"), ("", "d")),
    ]
    digests = {tokenize(dataset, tokenizer, LONG).digest for dataset in variants}
    assert len(digests) == len(variants)
    assert tokenize(variants[0], tokenizer, LONG).digest in digests


def test_control_tokens_in_a_chat_without_template_are_text(
    tokenizer: PreTrainedTokenizerBase, metaspace: PreTrainedTokenizerFast
) -> None:
    for one in (tokenizer, metaspace):
        template, one.chat_template = one.chat_template, None
        end = str(one.eos_token)
        row = only_row(chat(("user", f"a {end} b"), ("assistant", f"x{end}y")), one)
        assert row.input_ids.tolist().count(one.eos_token_id) == 1 or one is metaspace
        assert learnt(row)[-1] == one.eos_token_id
        if one is not metaspace:
            # Its vocabulary has no brackets.
            assert one.decode(row.input_ids) == f"user: a {end} b\nassistant: x{end}y{end}"
        one.chat_template = template
