"""/v1/files: uploads, and result files of jobs."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response

from auctune.service.accounts.registry import Principal
from auctune.service.fair_queue import in_thread
from auctune.service.files.blobs import TooLargeError
from auctune.service.files.repository import FileRecord
from auctune.service.http.errors import ERRORS, ApiError, not_found
from auctune.service.http.middleware import FORM_BYTES
from auctune.service.http.requests import EXPIRY_SECONDS, CurrentUser, MultipartUpload, ServiceDep
from auctune.service.http.schemas import FileDeleted, FileObject, FilePage
from auctune.service.http.serializers import JSON, file_view, json_in_thread, page_view
from auctune.service.identifiers import FILE_ID
from auctune.service.service import Service

router = APIRouter(prefix="/v1/files", tags=["files"], responses=ERRORS)

MAX_PAGE = 100
"""Files of a page; clients of OpenAI's API may ask for more, and then get several."""
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "additionalProperties": False,
                    "properties": {
                        "file": {"type": "string", "format": "binary", "minLength": 1},
                        "purpose": {"type": "string", "enum": ["fine-tune"]},
                        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
                        "expires_after[seconds]": {
                            "type": "integer",
                            "minimum": EXPIRY_SECONDS[0],
                            "maximum": EXPIRY_SECONDS[-1],
                        },
                    },
                }
            }
        },
    }
}


@router.post("", response_model=FileObject, response_model_exclude_none=True, openapi_extra=_FORM)
async def upload(service: ServiceDep, who: CurrentUser, request: Request) -> JSON:
    """Upload a data set.

    With `expires_after` the file is deleted so many seconds after it was created.
    """
    return await receive_file(service, who, request, MultipartUpload(request))


async def receive_file(
    service: Service, who: Principal, request: Request, form: MultipartUpload
) -> JSON:
    """Store the file of a form."""
    service.storage.check_upload(who.user)
    length = request.headers.get("content-length", "")
    announced = max(0, int(length) - FORM_BYTES) if length.isascii() and length.isdecimal() else 0
    limit = service.files.limits.upload_bytes
    if announced > limit:
        raise TooLargeError("file", f"has more than {limit} bytes", "a smaller file")
    record = await service.files.add(who.user, form, form.chunks(), announced)
    service.submissions.preload(record)
    return file_view(record)


@router.get("", response_model=FilePage)
async def list_files(
    service: ServiceDep,
    who: CurrentUser,
    after: Annotated[str | None, Query(pattern=f"^{FILE_ID}$")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    order: Literal["asc", "desc"] = "desc",
    purpose: Literal["fine-tune", "fine-tune-results"] | None = None,
    sha256: Annotated[str | None, Query(pattern=r"^[0-9a-f]{64}$")] = None,
    filename: Annotated[str | None, Query(pattern=r"^[^\x00]{1,255}$")] = None,
) -> Response:
    """List the user's files; filter by `sha256` and `filename` to find an earlier upload.

    A page has at most 100 files, whatever `limit` allows.
    """
    limit, oldest_first = min(limit, MAX_PAGE), order == "asc"

    def read() -> JSON:
        page = service.files.page(who.user, limit, after, purpose, oldest_first, sha256, filename)
        data = [file_view(record) for record in page.items]
        first, last = (data[0]["id"], data[-1]["id"]) if data else ("", "")
        return {**page_view(data, has_more=page.has_more), "first_id": first, "last_id": last}

    return await json_in_thread(read)


async def uploads(service: Service, who: Principal) -> list[JSON]:
    """Return the user's newest data sets, at most `MAX_PAGE`."""
    page = await in_thread(service.files.page, who.user, MAX_PAGE, None, "fine-tune")
    return [file_view(record) for record in page.items]


@router.get("/{file_id}", response_model=FileObject, response_model_exclude_none=True)
async def retrieve(service: ServiceDep, who: CurrentUser, file_id: str) -> JSON:
    """Return a file."""
    return file_view(await own_file(service, who, file_id))


@router.delete("/{file_id}", response_model=FileDeleted)
async def delete(service: ServiceDep, who: CurrentUser, file_id: str) -> JSON:
    """Delete a file that no open job needs."""
    await delete_record(service, await own_file(service, who, file_id))
    return {"id": file_id, "object": "file", "deleted": True}


@router.get(
    "/{file_id}/content",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "Raw bytes"}},
)
async def content(service: ServiceDep, who: CurrentUser, file_id: str) -> FileResponse:
    """Return the content of a file."""
    path = service.files.path(await own_file(service, who, file_id))
    try:
        status = await in_thread(path.stat)
    except FileNotFoundError:
        raise not_found("file", file_id) from None
    return FileResponse(path, media_type="application/octet-stream", stat_result=status)


async def delete_record(service: Service, record: FileRecord) -> None:
    """Delete a file; raise 400 if an open job needs it."""
    if not await service.lifecycle.delete(record):
        raise ApiError(400, "an open job needs this file", "file_in_use", "id")


async def own_file(service: Service, who: Principal, name: str) -> FileRecord:
    """Return a user's own file; raise 404 for any other."""
    record = await service.files.get(name)
    if record is None or record.owner != who.user:
        raise not_found("file", name)
    return record
