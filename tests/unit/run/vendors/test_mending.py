import pytest

from auctune.run.vendors.mending import Parsed, parse_or_mend


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
def test_broken_json_is_mended_without_touching_its_texts(text: str, value: object) -> None:
    assert parse_or_mend(text) == Parsed(value, mended=True)


def test_commas_and_words_inside_strings_stay() -> None:
    text = "{'text': 'a, } true, ] null', }"
    assert parse_or_mend(text) == Parsed({"text": "a, } true, ] null"}, mended=True)


def test_valid_json_is_not_counted_as_mended() -> None:
    assert parse_or_mend(' {"text": "a,}"} ') == Parsed({"text": "a,}"}, mended=False)


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
    assert parse_or_mend(text) is None


def test_a_long_line_of_open_quotes_is_refused_quickly() -> None:
    assert parse_or_mend("{" + "\\'" * 100_000 + ",}") is None
