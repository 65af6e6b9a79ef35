import pytest
from jinja2 import UndefinedError

from auctune.charts import DARK, LIGHT
from auctune.pages import NOTHING, count, make_environment, money

PAGES = make_environment("auctune.engine")


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("1.8000", "1.8000"),
        ("0.528", "0.5280"),
        ("-12", "-12.0000"),
        ("0", "0.0000"),
    ],
)
def test_money_has_four_decimals(amount: str, text: str) -> None:
    assert money(amount) == text


def test_no_amount_is_a_dash() -> None:
    assert money(None) == NOTHING


def test_things_are_counted_in_singular_and_plural() -> None:
    assert [count(number, "slot") for number in (0, 1, 2000)] == [
        "0 slots",
        "1 slot",
        "2,000 slots",
    ]


def test_every_colour_of_a_chart_has_a_rule_for_the_dark() -> None:
    style = PAGES.get_template("style.css").render()
    for light, dark in zip(LIGHT.colours(), DARK.colours(), strict=True):
        assert f'[fill="{light}"]{{fill:{dark}}}' in style
        assert f'[stroke="{light}"]{{stroke:{dark}}}' in style


def test_components_escape_their_values_and_refuse_undefined_names() -> None:
    text = "{% import 'components.html' as ui %}{{ ui.cell(x, x) }}{{ ui.tile(x, x, x) }}"
    hostile = "<script>&"
    page = PAGES.from_string(text + "{{ ui.notes(x, [x]) }}")
    shown = page.render(x=hostile)
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;&amp;") == 7
    with pytest.raises(UndefinedError):
        page.render()
