"""/v1/files: uploads, and what came out of jobs."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query, UploadFile
from fastapi.responses import FileResponse

from auctune.service.access.key import Principal
from auctune.service.api.access import MarketDep, Owner
from auctune.service.api.answers import FileDeleted, FileObject, FilePage
from auctune.service.api.errors import ERRORS, not_found
from auctune.service.api.views import Shown, file_view
from auctune.service.files.record import FileRecord, Purpose
from auctune.service.market import Market

router = APIRouter(prefix="/v1/files", tags=["files"], responses=ERRORS)
_CHUNK = 1 << 20


@router.post("", response_model=FileObject)
async def upload(
    market: MarketDep,
    who: Owner,
    file: UploadFile,
    purpose: Annotated[Literal["fine-tune"], Form()],
) -> Shown:
    """Upload a data set: JSON lines."""

    async def chunks() -> AsyncIterator[bytes]:
        while chunk := await file.read(_CHUNK):
            yield chunk

    name = (file.filename or "data.jsonl")[:255]
    record = await market.library.add(who.user, name, Purpose(purpose), chunks())
    market.submissions.look_at(record)
    return file_view(record)


@router.get("", response_model=FilePage)
async def list_files(
    market: MarketDep,
    who: Owner,
    after: Annotated[str | None, Query(max_length=80)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    order: Literal["asc", "desc"] = "desc",
    purpose: Literal["fine-tune", "fine-tune-results"] | None = None,
) -> Shown:
    """Files of one's own."""
    page = await market.library.page(who.user, limit, after, purpose, order == "asc")
    data = [file_view(record) for record in page.items]
    return {
        "object": "list",
        "data": data,
        "has_more": page.has_more,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
    }


@router.get("/{file_id}", response_model=FileObject)
async def retrieve(market: MarketDep, who: Owner, file_id: str) -> Shown:
    """One file."""
    return file_view(await _own(market, who, file_id))


@router.delete("/{file_id}", response_model=FileDeleted)
async def delete(market: MarketDep, who: Owner, file_id: str) -> Shown:
    """Delete a file; a job that trains on it keeps what it needs."""
    await market.library.delete(await _own(market, who, file_id))
    return {"id": file_id, "object": "file", "deleted": True}


@router.get(
    "/{file_id}/content",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "Raw bytes"}},
)
async def content(market: MarketDep, who: Owner, file_id: str) -> FileResponse:
    """A file's raw bytes."""
    record = await _own(market, who, file_id)
    return FileResponse(market.library.path(record), media_type="application/octet-stream")


async def _own(market: Market, who: Principal, name: str) -> FileRecord:
    record = await market.library.get(name)
    if record is None or record.owner != who.user:
        raise not_found("file", name)
    return record
