"""Vendors over HTTP: asked all at once, ordered from, and not believed unchecked.

The protocol is docs/reference/vendor-protocol.md; a vendor to run is examples/vendor.
"""

from auctune.service.vendors.backoff import Backoff
from auctune.service.vendors.blocking_vendor import BlockingVendor
from auctune.service.vendors.data_app import make_data_app
from auctune.service.vendors.data_facts import DataFacts, read_facts
from auctune.service.vendors.exchange import Exchange, make_client
from auctune.service.vendors.fault import Fault, VendorError
from auctune.service.vendors.http_vendor import HttpVendor
from auctune.service.vendors.lent_files import LentFiles
from auctune.service.vendors.links import DataLinks
from auctune.service.vendors.offer import Decline, Offer, Order
from auctune.service.vendors.params import HttpVendorParams
from auctune.service.vendors.quote_round import QuoteRound, ask_vendors
from auctune.service.vendors.secret import Secret, read_secret_file, read_secret_variable
from auctune.service.vendors.signed_app import SignedApp

__all__ = [
    "Backoff",
    "BlockingVendor",
    "DataFacts",
    "DataLinks",
    "Decline",
    "Exchange",
    "Fault",
    "HttpVendor",
    "HttpVendorParams",
    "LentFiles",
    "Offer",
    "Order",
    "QuoteRound",
    "Secret",
    "SignedApp",
    "VendorError",
    "ask_vendors",
    "make_client",
    "make_data_app",
    "read_facts",
    "read_secret_file",
    "read_secret_variable",
]
