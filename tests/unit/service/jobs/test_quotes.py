"""Quotes: kept for an hour, as far as there is room, and of nobody at another's cost."""

from decimal import Decimal

from auctune.domain import Cell, Schedule
from auctune.domain.decision import MenuLine
from auctune.engine.unix_time import SlotClock
from auctune.service.jobs.quotes import QUOTE_TTL_SECONDS, QuoteStore, ZoneQuote
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.training import Training
from auctune.service.zones.auction.gateway import offer_line
from auctune.service.zones.core.menu import MenuOffer

REQUEST = JobRequest(model="tiny", training_file="file-a")
TRAINING = Training(data="file-a")


def priced(cells: int) -> ZoneQuote:
    plan = Schedule(tuple(Cell(slot, "alpha") for slot in range(cells)), None)
    lines = (offer_line(MenuLine(cells, Decimal(1), plan)),)
    return ZoneQuote(TRAINING, 9.0, MenuOffer(lines, SlotClock(0.0, 1.0, lambda: 0.0)))


class Shelf:
    """Quotes, a clock that is moved by hand, and who asks."""

    def __init__(self, **limits: int) -> None:
        self.time = 0.0
        self.quotes = QuoteStore(lambda: self.time, **limits)

    def ask(self, owner: str, cells: int = 1) -> str:
        return self.quotes.add(owner, "north", "auction", REQUEST, priced(cells)).id

    def has(self, owner: str, quote: str) -> bool:
        return self.quotes.get(quote, owner) is not None


def test_who_asks_again_and_again_loses_quotes_and_nobody_else_does() -> None:
    shelf = Shelf(max_quotes=10)
    of_ada = [shelf.ask("ada") for _ in range(3)]
    of_eve = [shelf.ask("eve") for _ in range(100)]
    assert all(shelf.has("ada", quote) for quote in of_ada)
    assert [shelf.has("eve", quote) for quote in of_eve] == [False] * 93 + [True] * 7


def test_large_menus_take_the_room_of_many() -> None:
    shelf = Shelf(max_cells=1000)
    of_ada = shelf.ask("ada", cells=10)
    of_eve = [shelf.ask("eve", cells=99) for _ in range(50)]
    assert shelf.has("ada", of_ada)
    assert sum(shelf.has("eve", quote) for quote in of_eve) == 9


def test_a_quote_is_its_owners_alone_and_lasts_an_hour() -> None:
    shelf = Shelf(max_quotes=2)
    quote = shelf.ask("ada")
    assert not shelf.has("eve", quote)
    shelf.time = QUOTE_TTL_SECONDS
    assert shelf.has("ada", quote)
    shelf.time = QUOTE_TTL_SECONDS + 1
    assert not shelf.has("ada", quote)
    # What is too old takes no room.
    of_eve = [shelf.ask("eve") for _ in range(2)]
    assert all(shelf.has("eve", one) for one in of_eve)


def test_nothing_of_an_owner_is_kept_that_is_to_be_forgotten() -> None:
    shelf = Shelf(max_quotes=2)
    of_ada, of_eve = shelf.ask("ada"), shelf.ask("eve")
    shelf.quotes.forget("ada")
    shelf.quotes.forget("nobody")
    assert (shelf.has("ada", of_ada), shelf.has("eve", of_eve)) == (False, True)
