"""Data vendors outside the service: their protocol over HTTP, and the files shared with them.

`protocol` defines the messages; `client` is the service's side, and serves data sets to vendors.
`auctune.service.datasets.repairer` holds the vendors of a zone. examples/vendor is a vendor to run.
"""

from auctune.service.vendors.client import (
    SharedFiles,
    TokenClient,
    VendorClient,
    VendorParams,
    make_client,
    make_vendor_app,
    request_quotes,
    retry,
)
from auctune.service.vendors.protocol import (
    DatasetSummary,
    Decline,
    Fault,
    Offer,
    Order,
    VendorError,
    VendorToken,
    summarize,
)

__all__ = [
    "DatasetSummary",
    "Decline",
    "Fault",
    "Offer",
    "Order",
    "SharedFiles",
    "TokenClient",
    "VendorClient",
    "VendorError",
    "VendorParams",
    "VendorToken",
    "make_client",
    "make_vendor_app",
    "request_quotes",
    "retry",
    "summarize",
]
