"""Routes of the web UI. Errors become error pages with the HTTP status of the error.

Pages with much code are rendered in a thread, because highlighting takes long enough to delay other requests.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from starlette.convertors import Convertor, register_url_convertor
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from argosy.base.errors import ArgosyError, Invalid, NotFound, Throttled, Unavailable
from argosy.base.http import retry_after
from argosy.base.redact import redact
from argosy.gateway.admission import Scope, admission, record_error, record_result
from argosy.gateway.ports import SearchGateway, Unserved
from argosy.gateway.ui.facets import facets
from argosy.gateway.ui.files import (
    HolderLookup,
    OthersView,
    file_view,
    folder_view,
    highlight_query,
    highlight_spans,
    others_view,
)
from argosy.gateway.ui.fleet import fleet_page
from argosy.gateway.ui.highlight import Span
from argosy.gateway.ui.links import PageTarget, file_url, folder_url, parameters_of, parse_target
from argosy.gateway.ui.live_updates import LiveUpdates
from argosy.gateway.ui.pages import EXAMPLES, HEADERS, WORDS, Pages, field_examples
from argosy.gateway.ui.repos import table
from argosy.gateway.ui.results import (
    CONTEXT_MAX,
    FILES_MAX,
    FILES_STEPS,
    file_views,
    is_repository_query,
    missing_notices,
    next_step,
    notices,
    options_of,
)
from argosy.search.fleet.model import FileRequest, FileText, FolderRequest, ListResult
from argosy.search.model import SearchResult
from argosy.search.query import ParsedQuery, QuerySyntaxError, parse
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.middleware import HttpRequest

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

FOLDER = Path(__file__).parent / "static"
ASSETS = "/ui/static/"
EVENTS = "text/event-stream"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"  # the URL contains a hash of the content
OTHERS_S = 0.25  # wait for holders of identical files; they are an extra
LISTED_MAX = 1_000  # repositories on a listing page


class _Anything(Convertor[str]):
    """The rest of a path, newlines included: file names may contain them."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("anything", _Anything())


def ui_routes(gateway: SearchGateway, *, throttle: FairThrottle | None = None) -> list[Route]:
    """All pages, for a server that uses `/search` and `/print` for pages only."""
    return WebUi(gateway, throttle=throttle).routes()


class _Assets:
    """The static files, in memory: they are few and small."""

    def __init__(self) -> None:
        # Only these types: whatever else is in the folder is not served.
        self.files = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
        self._hashes = {name: sha256(content).hexdigest()[:12] for name, content in self.files.items()}

    def url(self, name: str) -> str:
        return f"{ASSETS}{name}?v={self._hashes[name]}"


class WebUi:
    """The pages of one gateway. Close it before stopping the server: open fleet pages keep their connections.

    `search_page` and `print_page` are exported for a server that also serves zoekt's API at these paths.
    """

    def __init__(
        self, gateway: SearchGateway, *, throttle: FairThrottle | None = None, holders: HolderLookup | None = None
    ) -> None:
        self._gateway = gateway
        self._holders = holders
        self._assets = _Assets()
        self._pages = Pages(self._assets.url)
        self._live = LiveUpdates(self._render_fleet)
        self._search_admission = admission(throttle, respond=self._respond_throttled, cost_of=_search_cost)
        self._search_route = Route("/search", self._with_error_page(self._search), middleware=self._search_admission)
        self._print_route = Route("/print", self._with_error_page(self._print))
        self.search_page: ASGIApp = self._search_route.app
        self.print_page: ASGIApp = self._print_route.app

    def routes(self) -> list[Route]:
        return [
            Route("/", self._with_error_page(self._home), middleware=self._search_admission),
            self._search_route,
            self._print_route,
            Route("/r/{target:anything}", self._with_error_page(self._tree)),
            Route("/repos", self._with_error_page(self._repos)),
            Route("/fleet", self._with_error_page(self._fleet)),
            Route("/help", self._with_error_page(self._help)),
            Route("/ui/fleet/now", self._with_error_page(self._fleet_now)),
            Route("/ui/fleet/events", self._with_error_page(self._fleet_events)),
            Route(ASSETS + "{name}", self._with_error_page(self._asset)),
        ]

    def close(self) -> None:
        self._live.close()

    def error_page(self, status: int, message: str, headers: Mapping[str, str]) -> Response:
        """The error page for paths that are not pages."""
        values: dict[str, Any] = {"message": message, "notices": (), "code": status, "headers": dict(headers)}
        return self._page("error.html", status, query="", **values)

    def _with_error_page(self, endpoint: Endpoint) -> Endpoint:
        """Wrap an endpoint: errors become error pages."""

        async def respond(request: Request) -> Response:
            try:
                return await endpoint(request)
            except ArgosyError as error:
                record_error(request.scope, error)
                return self._error(error, request.query_params.get("q", ""))

        return respond

    def _respond_throttled(self, error: ArgosyError, scope: Scope) -> Response:
        return self._error(error, Request(scope).query_params.get("q", ""))

    def _error(self, error: ArgosyError, query: str) -> Response:
        headers = {"retry-after": retry_after(error)} if isinstance(error, Throttled | Unavailable) else {}
        values: dict[str, Any] = {
            "message": redact(str(error)),
            "notices": missing_notices(error.missing if isinstance(error, Unserved) else ()),
            "code": error.status,
            "headers": headers,
        }
        return self._page("error.html", error.status, query=query, **values)

    async def _home(self, request: Request) -> Response:
        query = parameters_of(request.scope["query_string"]).get("q", "")
        if query:
            return await self._search(request)
        try:
            # The home page has numbers of the fleet, and must work while the gateway starts.
            fleet = fleet_page(await self._gateway.status())
        except ArgosyError:
            fleet = None  # the numbers are optional; a search will report the error
        return self._page("home.html", query="", fleet=fleet, examples=EXAMPLES)

    async def _search(self, request: Request) -> Response:
        params = parameters_of(request.scope["query_string"])
        query = params.get("q", "").strip()
        if not query:
            return RedirectResponse("/", 302, HEADERS)
        context = _number(params, "ctx", 0, 0, CONTEXT_MAX)
        files = _number(params, "num", FILES_STEPS[0], 1, FILES_MAX)
        try:
            parsed = parse(query)
        except QuerySyntaxError as error:
            message, pointed = redact(str(error)), error.excerpt()
            return self._page("search_error.html", error.status, query=query, error=message, pointed=pointed)
        if is_repository_query(parsed.query):
            listing = await self._gateway.list(parsed.query)
            return self._list_page(listing, query)
        # `count:` was typed by the user, `num` comes from a link.
        if parsed.count is not None:
            files = min(parsed.count or FILES_MAX, FILES_MAX)
        answer = await self._gateway.search(parsed.query, options_of(files, context))
        record_result(request.scope, answer)
        return await asyncio.to_thread(self._results, answer, parsed, query, files, context)

    def _list_page(self, listing: ListResult, query: str) -> Response:
        entries = sorted(listing.entries, key=lambda entry: entry.repository.name)
        return self._page(
            "listing.html",
            query=query,
            entries=entries[:LISTED_MAX],
            total=len(entries),
            documents=sum(entry.documents for entry in entries),
            notices=missing_notices(listing.missing),
        )

    def _results(self, answer: SearchResult, parsed: ParsedQuery, query: str, files: int, context: int) -> Response:
        return self._page(
            "results.html",
            query=query,
            files=list(file_views(answer, query)),
            stats=answer.stats,
            notices=notices(answer),
            facets=facets(query, answer.files, files_max=files if files != FILES_STEPS[0] else 0, context=context),
            shown=files,
            next=next_step(answer, files) if parsed.count is None else 0,
            context=context,
            contexts=(0, 3, CONTEXT_MAX),
        )

    async def _tree(self, request: Request) -> Response:
        # A path is split before it is unescaped (see `links`), so the raw one; `raw_path` is optional in ASGI.
        target = parse_target(request.scope.get("raw_path") or request.scope["path"].encode())
        params = parameters_of(request.scope["query_string"])
        branch = params.get("b", "")
        if target.is_folder:
            return await self._folder(target, branch)
        try:
            file = await self._gateway.file(FileRequest(target.repository, target.path, branch))
        except NotFound as error:
            return await self._maybe_folder(target, branch, error)
        spans, note = await self._highlights(file, branch, params.get("q", ""))
        others = await self._others(file)
        return await asyncio.to_thread(self._file, file, branch, params, spans, note, others)

    # Both redirects are tried only after a 404, so that an ordinary page costs no further request to a node.

    async def _maybe_folder(self, target: PageTarget, branch: str, error: NotFound) -> Response:
        """Redirect a folder URL without its trailing slash."""
        try:
            folder = await self._gateway.folder(FolderRequest(target.repository, target.path, branch))
        except NotFound:
            raise error from None
        if not folder.names:
            raise error
        return RedirectResponse(folder_url(target.repository, target.path, branch=branch), 302, HEADERS)

    async def _maybe_inside(self, target: PageTarget, branch: str, error: NotFound) -> Response:
        """Redirect a URL without the `/-/` between the repository and the path."""
        if target.path:
            raise error
        names = {each.name for each in (await self._gateway.status()).repositories}
        around = [name for name in names if target.repository.startswith(f"{name}/")]
        if target.repository in names or not around:
            raise error
        # The longest, because one repository's name can be the beginning of another's.
        name = max(around, key=len)
        return RedirectResponse(file_url(name, target.repository[len(name) + 1 :], branch=branch), 302, HEADERS)

    async def _folder(self, target: PageTarget, branch: str) -> Response:
        try:
            folder = await self._gateway.folder(FolderRequest(target.repository, target.path, branch))
        except NotFound as error:
            return await self._maybe_inside(target, branch, error)
        # A repository without files is shown empty; a folder without files does not exist in git.
        if target.path and not folder.names:
            raise NotFound(f"folder {target.path!r} not found in {target.repository!r}")
        view = folder_view(folder, branch)
        return self._page("folder.html", query="", view=view, repository=folder.repository, path=target.path)

    def _file(
        self, file: FileText, branch: str, params: dict[str, str], spans: list[Span], note: str, others: OthersView
    ) -> Response:
        view = file_view(file, branch, spans, version=params.get("v", ""))
        values: dict[str, Any] = {"view": view, "repository": file.repository, "path": file.path, "note": note}
        return self._page("file.html", query=params.get("q", ""), others=others, **values)

    async def _others(self, file: FileText) -> OthersView:
        """Other holders of the file, unless the lookup fails or takes too long."""
        if self._holders is None or not file.content:
            return OthersView()
        # In a thread: hashing a file of megabytes would delay other requests by milliseconds.
        digest = await asyncio.to_thread(lambda: sha256(file.content).digest())
        try:
            async with asyncio.timeout(OTHERS_S):
                return others_view(await self._holders.holders(digest), file.repository.name)
        except (ArgosyError, TimeoutError):
            return OthersView()

    async def _highlights(self, file: FileText, branch: str, query: str) -> tuple[list[Span], str]:
        """The matches of the query in the file, or a note why they are unknown; the file is shown in any case."""
        if not query or file.skipped:
            return [], ""
        try:
            search = highlight_query(query, file.path)
            if search is None:
                return [], ""
            answer = await self._gateway.search(*search, only={file.repository.name})
        except ArgosyError as error:
            return [], f"matches not highlighted: {redact(str(error))}"
        return highlight_spans(answer, file, branch), ""

    async def _print(self, request: Request) -> Response:
        """Redirect zoekt's URL of a file."""
        params = parameters_of(request.scope["query_string"])
        repository, path = params.get("r", ""), params.get("f", "")
        if not repository or not path:
            raise Invalid("/print requires the parameters r (repository) and f (file path)")
        url = file_url(repository, path, branch=params.get("b", ""), query=params.get("q", ""))
        return RedirectResponse(url, 302, HEADERS)

    async def _repos(self, request: Request) -> Response:
        params = parameters_of(request.scope["query_string"])
        words, state = params.get("filter", ""), params.get("state", "")
        sort, is_descending = params.get("sort", "name"), params.get("order") == "desc"
        status = await self._gateway.status()
        repositories = table(status, sort=sort, is_descending=is_descending, words=words, state=state)
        return self._page("repos.html", query="", table=repositories, words=words, state=state)

    async def _fleet(self, request: Request) -> Response:
        return self._page("fleet.html", query="", fleet=fleet_page(await self._gateway.status()))

    async def _fleet_now(self, request: Request) -> Response:
        """The live part of the fleet page, for browsers without server-sent events."""
        return Response(await self._render_fleet(), headers=HEADERS, media_type="text/html")

    async def _fleet_events(self, request: Request) -> Response:
        if request.method == "HEAD":
            return Response(headers=HEADERS, media_type=EVENTS)
        updates = self._live.listen()
        first = await anext(updates)  # before the response starts, so that too many listeners are a 503
        return StreamingResponse(_events(first, updates), headers=dict(HEADERS), media_type=EVENTS)

    async def _render_fleet(self) -> bytes:
        try:
            return self._pages.render("_fleet.html", fleet=fleet_page(await self._gateway.status()))
        except ArgosyError as error:
            return self._pages.render("_problem.html", message=redact(str(error)))

    async def _help(self, request: Request) -> Response:
        return self._page("help.html", query="", words=WORDS, rows=field_examples())

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        content = self._assets.files.get(name)
        if content is None:
            raise NotFound(f"static file {name!r} not found")
        headers = {**HEADERS, "cache-control": FOREVER}
        return Response(content, headers=headers, media_type=TYPES[Path(name).suffix])

    def _page(self, template: str, status: int = 200, **values: Any) -> Response:
        headers = dict(HEADERS) | values.pop("headers", {})
        return Response(self._pages.render(template, **values), status, headers, "text/html")


def _search_cost(request: HttpRequest) -> float:
    """0 for the home page and an empty search, which cost no search and are always admitted."""
    return 1.0 if QueryParams(request.raw["query_string"]).get("q", "").strip() else 0.0


async def _events(first: bytes, updates: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Server-sent events: every line of the text is a data line, and the browser joins them again."""
    try:
        yield _event(first)
        async for text in updates:
            yield _event(text)
    finally:
        # At once: otherwise the listener would count until the generator is collected.
        await updates.aclose()


def _event(text: bytes) -> bytes:
    return b"".join(b"data: " + line + b"\n" for line in text.splitlines()) + b"\n"


def _number(params: dict[str, str], name: str, default: int, lowest: int, highest: int) -> int:
    text = params.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise Invalid(f"invalid {name}: {text[:40]!r}; use a number from {lowest} to {highest}")
    # Cut before the conversion: nine digits exceed every maximum, and int() raises ValueError for thousands.
    return max(lowest, min(highest, int(text[:9])))
