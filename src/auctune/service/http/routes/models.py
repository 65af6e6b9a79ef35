"""/v1/models: bases, and the caller's own fine-tuned models."""

from fastapi import APIRouter
from fastapi.responses import Response

from auctune.service.http.auth import CurrentUser, ServiceDep
from auctune.service.http.errors import ERRORS, ApiError
from auctune.service.http.routes.files import delete_record
from auctune.service.http.schemas import ModelDeleted, ModelList, ModelObject
from auctune.service.http.serializers import JSON, json_in_thread
from auctune.service.inference.catalog import Model

router = APIRouter(prefix="/v1/models", tags=["models"], responses=ERRORS)


@router.get("", response_model=ModelList)
async def list_models(service: ServiceDep, who: CurrentUser) -> Response:
    """List the bases, and the user's fine-tuned models, newest first."""
    models = await service.models.list(who.user)
    return await json_in_thread(lambda: {"object": "list", "data": list(map(_view, models))})


# Names of bases may be paths.
@router.get("/{model:path}", response_model=ModelObject)
async def retrieve(service: ServiceDep, who: CurrentUser, model: str) -> JSON:
    """Return a base, or one of the user's fine-tuned models, or a checkpoint of one."""
    return _view(await service.models.find(model, who.user))


@router.delete("/{model:path}", response_model=ModelDeleted)
async def delete(service: ServiceDep, who: CurrentUser, model: str) -> JSON:
    """Delete a fine-tuned model of the user, or a checkpoint: the result file with its adapter."""
    found = await service.models.find(model, who.user)
    if found.file is None:
        raise ApiError(403, f"{model!r} is a base, which nobody can delete", "forbidden", "model")
    await delete_record(service, found.file)
    return {"id": found.name, "object": "model", "deleted": True}


def _view(model: Model) -> JSON:
    return {
        "id": model.name,
        "object": "model",
        "created": int(model.created_at),
        "owned_by": model.owner,
    }
