"""/v1/webhooks: addresses that are told when a job is over."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, StringConstraints

from auctune.service.api.access import MarketDep, Owner
from auctune.service.api.errors import ERRORS, not_found
from auctune.service.jobs.request import CLOSED
from auctune.service.webhooks.hook import Hook
from auctune.service.webhooks.signing import Signer

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], responses=ERRORS)


class WebhookBody(BaseModel):
    """An address."""

    model_config = CLOSED

    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class WebhookView(BaseModel):
    """A webhook; `secret` is what the official client's `webhooks.unwrap` asks for."""

    id: str
    object: str = "webhook"
    url: str
    created_at: int
    secret: str


class WebhookPage(BaseModel):
    """All of one's own."""

    object: str = "list"
    data: list[WebhookView]
    has_more: bool = False


class WebhookDeleted(BaseModel):
    """A webhook that is gone."""

    id: str
    object: str = "webhook"
    deleted: bool


@router.post("", response_model=WebhookView)
async def add_webhook(market: MarketDep, who: Owner, body: WebhookBody) -> dict[str, Any]:
    """Have an address told when a job of one's own is over."""
    messenger = market.messenger
    return _view(await messenger.hooks.add(who.user, body.url), messenger.signer)


@router.get("", response_model=WebhookPage)
async def list_webhooks(market: MarketDep, who: Owner) -> dict[str, Any]:
    """One's own."""
    messenger = market.messenger
    data = [_view(hook, messenger.signer) for hook in messenger.hooks.of(who.user)]
    return {"object": "list", "data": data, "has_more": False}


@router.delete("/{webhook_id}", response_model=WebhookDeleted)
async def remove_webhook(market: MarketDep, who: Owner, webhook_id: str) -> dict[str, Any]:
    """Have an address told nothing any more."""
    hook = market.messenger.hooks.get(webhook_id)
    if hook is None or hook.user != who.user:
        raise not_found("webhook", webhook_id)
    await market.messenger.hooks.remove(hook)
    return {"id": webhook_id, "object": "webhook", "deleted": True}


def _view(hook: Hook, signer: Signer) -> dict[str, Any]:
    return {
        "id": hook.id,
        "object": "webhook",
        "url": hook.url,
        "created_at": int(hook.created_at),
        "secret": signer.secret(hook.id),
    }
