from auctune.domain.dataset import RowKind
from auctune.engine.vendors.cleaning import clean_row, clean_text, convert_row, undo_mojibake
from auctune.engine.vendors.schema import ShapedRow


def test_mojibake_is_undone_also_when_it_happened_twice() -> None:
    assert undo_mojibake("cafÃ© NÂ° 5 â€“ fin") == "café N° 5 \u2013 fin"
    assert clean_text("cafÃƒÂ©") == "café"


def test_intact_accents_are_left_alone() -> None:
    for text in ("café", "CAFÉ®", "Ã é", "naïve Â", "Ωmega Ã©"):
        assert undo_mojibake(text) == text


def test_invisible_characters_go_and_indentation_stays() -> None:
    assert clean_text("def f():\r\n    return 1 \x00\u200b\n\n\n\n\nx\ud800") == (
        "def f():\n    return 1\n\n\nx"
    )
    assert clean_text("e\u0301") == "é"
    for joined in ("👩\u200d💻", "\u0645\u06cc\u200c\u062e\u0648"):
        assert clean_text(joined) == joined


def test_long_runs_of_blanks_take_linear_time() -> None:
    text = " " * 300_000 + "x" + "\t" * 300_000 + "\n" + "y"
    assert clean_text(text) == " " * 300_000 + "x\ny"


def test_blanks_between_prompt_and_completion_are_kept() -> None:
    row = ShapedRow(RowKind.COMPLETION, (("prompt", "  Q:\n"), ("completion", " A  ")))
    assert clean_row(row).texts == (("prompt", "Q:\n"), ("completion", " A"))


def test_a_chat_loses_empty_ends_only() -> None:
    row = ShapedRow(
        RowKind.CHAT, (("system", " "), ("user", "hi"), ("assistant", "yes"), ("assistant", ""))
    )
    assert clean_row(row).texts == (("user", "hi"), ("assistant", "yes"))


def test_kinds_are_converted_only_where_nothing_is_lost() -> None:
    chat = ShapedRow(RowKind.CHAT, (("system", "s"), ("user", "q"), ("assistant", "a")))
    long_chat = ShapedRow(RowKind.CHAT, (*chat.texts, ("user", "q2"), ("assistant", "a2")))
    text = ShapedRow(RowKind.TEXT, (("text", "t"),))
    completion = ShapedRow(RowKind.COMPLETION, (("prompt", "q "), ("completion", "a")))
    as_completion = convert_row(chat, RowKind.COMPLETION)
    assert as_completion is not None
    assert as_completion.to_json() == {"prompt": "s\n\nq\n", "completion": "a"}
    as_chat = convert_row(completion, RowKind.CHAT)
    assert as_chat is not None
    assert as_chat.texts == (("user", "q"), ("assistant", "a"))
    as_text = convert_row(completion, RowKind.TEXT)
    assert as_text is not None
    assert as_text.to_json() == {"text": "q a"}
    assert convert_row(long_chat, RowKind.COMPLETION) is None
    assert convert_row(chat, RowKind.TEXT) is None
    assert convert_row(text, RowKind.CHAT) is None
