import pytest

from auctune.engine.vendors.reading import Parsed, parse_or_repair


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"text": "a",}', {"text": "a"}),
        ('{"messages": [1, 2, ], }', {"messages": [1, 2]}),
        ("{'text': 'it\\'s', 'n': None, 'b': True}", {"text": "it's", "n": None, "b": True}),
        (
            "{'text': \"a, }\", 'n': null, 'b': [false,],}",
            {"text": "a, }", "n": None, "b": [False]},
        ),
        ('row 7: {"text": "a"};', {"text": "a"}),
        ('{"text": "a"},', {"text": "a"}),
        ('{"text": "a\tb"}', {"text": "a\tb"}),
        ('"{\\"text\\": \\"a\\"}"', {"text": "a"}),
        ("{'text': '\\d+'}", {"text": "\\d+"}),
    ],
)
def test_broken_json_is_repaired_without_touching_its_texts(text: str, value: object) -> None:
    assert parse_or_repair(text) == Parsed(value, repaired=True)


def test_commas_and_words_inside_strings_stay() -> None:
    text = "{'text': 'a, } true, ] null', }"
    assert parse_or_repair(text) == Parsed({"text": "a, } true, ] null"}, repaired=True)


def test_valid_json_is_not_counted_as_repaired() -> None:
    assert parse_or_repair(' {"text": "a,}"} ') == Parsed({"text": "a,}"}, repaired=False)


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "cut off he',
        '{"text": "a"} {"text": "b"}',
        "hello",
        "",
        "{'text': open('x')}",
        "{[]: 1}",
        "[" * 10_000,
        "{'a': " + "[" * 60 + "]" * 60 + "}",
    ],
)
def test_what_would_need_guessing_is_refused(text: str) -> None:
    assert parse_or_repair(text) is None


def test_a_long_line_of_open_quotes_is_refused_quickly() -> None:
    assert parse_or_repair("{" + "\\'" * 100_000 + ",}") is None
