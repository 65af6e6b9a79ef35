"""Who asks: the key of a request, its role and its rate."""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from auctune.service.access.key import Principal, Role
from auctune.service.api.errors import ApiError
from auctune.service.market import Market

_bearer = HTTPBearer(auto_error=False, description="An API key")


async def market_of(request: Request) -> Market:
    """The market that the app serves."""
    market: Market = request.app.state.market
    return market


async def principal_of(
    request: Request,
    found: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> Principal:
    """Whose request it is.

    Raises:
        ApiError: 401 without a good key, 429 for too many requests.
    """
    market = await market_of(request)
    who = None if found is None else market.directory.principal(found.credentials)
    if who is None:
        raise ApiError(
            401,
            "no valid API key; expected the header Authorization: Bearer sk-...",
            "invalid_api_key",
            headers={"WWW-Authenticate": "Bearer"},
        )
    wait = market.rate.take(who.key)
    if wait > 0:
        raise ApiError(
            429,
            f"too many requests; try again in {wait:.1f} s",
            "rate_limit_exceeded",
            headers={"Retry-After": f"{max(1, round(wait))}"},
        )
    return who


async def operator_of(who: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """An operator's request.

    Raises:
        ApiError: 403 for anybody else's.
    """
    if who.role is not Role.OPERATOR:
        raise ApiError(403, "this is for operators", "forbidden")
    return who


async def owner_of(who: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """A request of somebody who brings jobs.

    Raises:
        ApiError: 403 for a vendor's.
    """
    if who.role is Role.VENDOR:
        raise ApiError(403, "this is for users", "forbidden")
    return who


MarketDep = Annotated[Market, Depends(market_of)]
Owner = Annotated[Principal, Depends(owner_of)]
Operator = Annotated[Principal, Depends(operator_of)]
