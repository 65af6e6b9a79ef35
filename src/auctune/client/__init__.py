"""A client of the service: what the command line says to it, and what it makes of the answers."""

from auctune.client.address import Address, find_address
from auctune.client.client import Client
from auctune.client.errors import ServiceError, UnreachableError
from auctune.client.job import Job
from auctune.client.terms import Terms, Value
from auctune.client.work import Work

__all__ = [
    "Address",
    "Client",
    "Job",
    "ServiceError",
    "Terms",
    "UnreachableError",
    "Value",
    "Work",
    "find_address",
]
