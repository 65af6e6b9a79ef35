"""Files: uploads, adapters, and what becomes of them."""

from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from auctune.service.http.errors import ApiError
from auctune.service.http.routes import files
from auctune.service.page.guard import ROOT, Visit
from auctune.service.page.look import show


async def list_files(visit: Visit) -> Response:
    """All of one's own."""
    page = await files.list_files(visit.service, visit.who, visit.after("file"), limit=50)
    return show(visit, "files.html", files=page["data"], more=page["has_more"])


async def upload(visit: Visit) -> Response:
    """Take a data set in, and go on with a job for it."""
    file = await files.upload(visit.service, visit.who, visit.request)
    return RedirectResponse(f"{ROOT}/new?file={file['id']}", 303)


async def delete(visit: Visit) -> Response:
    """Delete a file that no open job needs."""
    await files.delete(visit.service, visit.who, visit.param("file_id"))
    return RedirectResponse(f"{ROOT}/files", 303)


async def content(visit: Visit) -> Response:
    """A file's bytes, to be kept and not to be shown."""
    name = visit.param("file_id")
    known = await files.retrieve(visit.service, visit.who, name)
    answer = await files.content(visit.service, visit.who, name)
    called = quote(known["filename"], safe="")
    answer.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{called}"
    return answer


async def filename(visit: Visit, file: str | None) -> str | None:
    """Return the name of a file, or its id where the visitor may not see it or it is gone."""
    if file is None:
        return None
    try:
        known = await files.retrieve(visit.service, visit.who, file)
    except ApiError:
        return file
    return str(known["filename"])
