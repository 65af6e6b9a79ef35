"""A vendor that is reached over HTTP, as docs/reference/vendor-protocol.md has it.

Every call of the protocol can be repeated without harm, so each is tried again after transient
faults, until its time is over. Nothing here waits anywhere but in the event loop.
"""

import asyncio
import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import httpx2
from pydantic import BaseModel, TypeAdapter, ValidationError

from auctune.domain import Money, parse_money
from auctune.run.vendors import RepairReport
from auctune.service.vendors.backoff import persist
from auctune.service.vendors.data_facts import DataFacts
from auctune.service.vendors.delivery import accept_delivery, make_report, report_limit
from auctune.service.vendors.exchange import Answer, Exchange
from auctune.service.vendors.fault import Fault, VendorError, make_printable
from auctune.service.vendors.links import Clock, DataLinks
from auctune.service.vendors.messages import (
    MONEY,
    DataBody,
    DeclineAnswer,
    OfferAnswer,
    OrderAnswer,
    OrderRequest,
    QuoteAnswer,
    QuoteRequest,
    ReportBody,
    ResultBody,
)
from auctune.service.vendors.offer import Decline, Offer, Order
from auctune.service.vendors.params import HttpVendorParams

B = TypeVar("B", bound=BaseModel)

# Of the time for a quote; the rest is for the way there and back.
_VENDORS_SHARE = 0.8
_MONEY = re.compile(MONEY)
_QUOTE: TypeAdapter[OfferAnswer | DeclineAnswer] = TypeAdapter(QuoteAnswer)


class HttpVendor:
    """Asks, orders and fetches.

    Args:
        params: where the vendor is.
        links: makes the links by which it fetches data sets.
        client: from `make_client`; many vendors may share one. The caller closes it.
        clock: unix time.
    """

    def __init__(
        self,
        params: HttpVendorParams,
        links: DataLinks,
        client: httpx2.AsyncClient,
        clock: Clock = time.time,
    ) -> None:
        self._params = params
        self._links = links
        self._clock = clock
        self._exchange = Exchange(params.name, params.secret, client, clock)

    @property
    def name(self) -> str:
        """Unique in its market."""
        return self._params.name

    async def quote(self, data: DataFacts, seconds: float) -> Offer | Decline:
        """What the vendor asks for repairing a data set, or that it does not want to.

        Raises:
            VendorError: if there is no good answer within `seconds`.
        """
        request = QuoteRequest(
            data=self._describe(data), answer_within_seconds=_VENDORS_SHARE * seconds
        )
        asked = self._clock()
        answer = await self._ask("POST", "/quotes", request.to_bytes(), seconds)
        self._expect(answer, 200)
        try:
            body = _QUOTE.validate_json(answer.body)
        except ValidationError as error:
            raise self._nonsense(error) from None
        if isinstance(body, DeclineAnswer):
            return Decline(self.name, make_printable(body.reason))
        price = self._read_price(body.price)
        return Offer(self.name, body.offer, price, body.delay_seconds, asked + body.valid_seconds)

    async def order(self, order: Order) -> None:
        """Give an order; giving the same again is the same order.

        Raises:
            VendorError: if the vendor does not take it.
        """
        body = OrderRequest(
            offer=order.offer, price=str(order.price), data=self._describe(order.data)
        ).to_bytes()
        seconds = self._params.answer_seconds
        answer = await self._ask("PUT", f"/orders/{order.id}", body, seconds)
        self._expect(answer, 200, 201)
        self._parse(OrderAnswer, answer)

    async def fetch(self, order: Order, target: Path, seconds: float) -> RepairReport:
        """Wait until an order is done, and write the repaired data set to `target`.

        `target` appears whole or not at all, and only if it is a data set, of the kind and the
        number of rows that the vendor reports.

        Raises:
            VendorError: if that does not come about within `seconds`.
        """
        # Beside the target, as a file can be put in place only within one file system.
        with TemporaryDirectory(
            dir=target.parent, prefix=".delivery-", ignore_cleanup_errors=True
        ) as folder:
            draft = Path(folder) / "draft"
            report = await persist(
                lambda: self._wait_and_download(order, draft),
                self.name,
                seconds,
                self._params.backoff,
            )
            await asyncio.to_thread(accept_delivery, draft, report, target)
            return report

    async def forget(self, order: str) -> None:
        """Tell the vendor to drop an order, by its id, and its data: fetched, or needed no more.

        Raises:
            VendorError: if the vendor does not say that it did.
        """
        seconds = self._params.answer_seconds
        self._expect(await self._ask("DELETE", f"/orders/{order}", b"", seconds), 200, 404)

    async def _wait_and_download(self, order: Order, draft: Path) -> RepairReport:
        result = await self._wait(order)
        if result.bytes > self._params.max_result_bytes:
            raise self._error(Fault.SIZE, f"a result of {result.bytes} bytes")
        with draft.open("wb") as file:

            async def write(chunk: bytes) -> None:
                await asyncio.to_thread(file.write, chunk)

            url = self._url(f"/orders/{order.id}/data")
            answer = await self._exchange.download(url, result.bytes, result.sha256, write)
        self._expect(answer, 200)
        answer = await self._exchange.ask(
            "GET", self._url(f"/orders/{order.id}/report"), limit=report_limit(order.data.rows)
        )
        self._expect(answer, 200)
        return make_report(self.name, self._parse(ReportBody, answer))

    async def _wait(self, order: Order) -> ResultBody:
        """Poll until there is a result; the vendor may hold an answer back while there is none."""
        poll_seconds = self._params.poll_seconds
        while True:
            asked = time.monotonic()
            answer = await self._look(order)
            if answer.state == "done" and answer.result is not None:
                return answer.result
            if answer.state == "done":
                raise self._error(Fault.NONSENSE, "an order that is done, without a result")
            if answer.state == "failed":
                raise self._error(Fault.FAILED, answer.reason)
            if answer.state == "needs_data":
                await self.order(order)
            await asyncio.sleep(max(0.0, poll_seconds - (time.monotonic() - asked)))

    async def _look(self, order: Order) -> OrderAnswer:
        url = self._url(f"/orders/{order.id}?wait={self._params.poll_seconds:g}")
        answer = await self._exchange.ask("GET", url)
        if answer.status == 404:
            # It has lost the order, and gets it again.
            return OrderAnswer(state="needs_data")
        self._expect(answer, 200)
        return self._parse(OrderAnswer, answer)

    def _describe(self, data: DataFacts) -> DataBody:
        """The data set with a new link to it."""
        return DataBody(
            format=data.format,
            rows=data.rows,
            bytes=data.bytes,
            sha256=data.sha256,
            url=self._links.make(self.name, data.sha256),
        )

    def _url(self, path: str) -> str:
        return f"{self._params.url.rstrip('/')}/v1{path}"

    async def _ask(self, method: str, path: str, body: bytes, seconds: float) -> Answer:
        """Ask, and again after transient faults."""
        url = self._url(path)
        return await persist(
            lambda: self._exchange.ask(method, url, body),
            self.name,
            seconds,
            self._params.backoff,
        )

    def _expect(self, answer: Answer, *statuses: int) -> None:
        if answer.status not in statuses:
            raise self._error(Fault.REFUSED, f"status {answer.status}: {answer.reason}")

    def _parse(self, kind: type[B], answer: Answer) -> B:
        try:
            return kind.model_validate_json(answer.body)
        except ValidationError as error:
            raise self._nonsense(error) from None

    def _nonsense(self, error: ValidationError) -> VendorError:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        return self._error(Fault.NONSENSE, f"{place}: {first['msg']}")

    def _read_price(self, price: object) -> Money:
        if not isinstance(price, str) or not _MONEY.fullmatch(price):
            raise self._error(Fault.PRICE, f"{price!r} is no amount of money")
        return parse_money(price, "price")

    def _error(self, fault: Fault, detail: str) -> VendorError:
        return VendorError(self.name, fault, detail)
