"""Python client of the service; the command line is built on it."""

from auctune.client.client import Client
from auctune.client.endpoint import Endpoint, resolve_endpoint
from auctune.client.errors import ServiceError, UnreachableError
from auctune.client.job import Job
from auctune.client.spec import DecayingValue, JobSpec, JobTerms
from auctune.client.transport import Transport

__all__ = [
    "Client",
    "DecayingValue",
    "Endpoint",
    "Job",
    "JobSpec",
    "JobTerms",
    "ServiceError",
    "Transport",
    "UnreachableError",
    "resolve_endpoint",
]
