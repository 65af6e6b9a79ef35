"""/v1/webhooks: addresses that are notified of ended jobs and used budgets."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, StringConstraints

from auctune.service.http.errors import ERRORS, not_found
from auctune.service.http.requests import CurrentUser, ServiceDep
from auctune.service.http.schemas import Page
from auctune.service.http.serializers import JSON, page_view
from auctune.service.jobs.request import FORBID_EXTRA
from auctune.service.webhooks.registry import Webhook, WebhookSigner

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], responses=ERRORS)


class WebhookBody(BaseModel):
    """An address to register."""

    model_config = FORBID_EXTRA

    url: Annotated[str, StringConstraints(min_length=1, max_length=2000)]


class WebhookResponse(BaseModel):
    """A webhook; `secret` is the argument of `webhooks.unwrap` in OpenAI's client."""

    id: str
    object: str = "webhook"
    url: str
    created_at: int
    secret: str


class WebhookDeleted(BaseModel):
    """A webhook that was deleted."""

    id: str
    object: str = "webhook"
    deleted: bool


@router.post("", response_model=WebhookResponse)
async def add_webhook(service: ServiceDep, who: CurrentUser, body: WebhookBody) -> JSON:
    """Register an address that is notified when a job of the user ends."""
    webhook = await service.webhooks.registry.add(who.user, body.url)
    return _view(webhook, service.webhooks.signer)


@router.get("", response_model=Page[WebhookResponse])
async def list_webhooks(service: ServiceDep, who: CurrentUser) -> JSON:
    """List the user's webhooks."""
    signer = service.webhooks.signer
    webhooks = service.webhooks.registry.for_user(who.user)
    return page_view([_view(webhook, signer) for webhook in webhooks])


@router.delete("/{webhook_id}", response_model=WebhookDeleted)
async def remove_webhook(service: ServiceDep, who: CurrentUser, webhook_id: str) -> JSON:
    """Delete a webhook."""
    webhook = service.webhooks.registry.get(webhook_id)
    if webhook is None or webhook.user != who.user:
        raise not_found("webhook", webhook_id)
    await service.webhooks.registry.remove(webhook)
    return {"id": webhook_id, "object": "webhook", "deleted": True}


def _view(webhook: Webhook, signer: WebhookSigner) -> JSON:
    return {
        "id": webhook.id,
        "object": "webhook",
        "url": webhook.url,
        "created_at": int(webhook.created_at),
        "secret": signer.secret(webhook.id),
    }
