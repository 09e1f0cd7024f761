"""Routes of zoekt's web server: `/api/search`, `/api/list`, `/search?format=json`, `/print`, `/healthz`.

A client that does not know our extra keys can still detect an incomplete result: `Crashes` is above zero. If no
repository of the query could be searched, the response is 503 with `Retry-After` (GW-1).
"""

from collections.abc import Awaitable, Callable, Collection, Iterable

from msgspec import structs
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ASGIScope

from argosy import __version__
from argosy.base.errors import ArgosyError, Invalid, NotFound, Throttled, Unavailable
from argosy.base.http import RETRY_AFTER_S, read_body, retry_after
from argosy.base.redact import redact
from argosy.gateway.admission import Scope, admission, record_error, record_result
from argosy.gateway.ports import SearchGateway
from argosy.gateway.zoekt import page
from argosy.gateway.zoekt.go_compat import encode
from argosy.gateway.zoekt.requests import (
    ZoektListRequest,
    ZoektSearchRequest,
    decode_request,
    needs_estimate,
    options_of,
    with_zoekt_limits,
)
from argosy.gateway.zoekt.responses import check_field, repo_list, search_result
from argosy.gateway.zoekt.wire import ZoektError, ZoektListReply, ZoektSearchReply
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.model import FileRequest
from argosy.search.model import Form, Options
from argosy.search.query import COUNT_ALL, ParsedQuery, format_query, parse
from argosy.search.query.tree import TRUE, Query
from argosy.throttle.fair_throttle import FairThrottle

BODY_BYTES_MAX = 4 << 20  # fits a list of a hundred thousand repositories
# The limit of zoekt's own pages.
PAGE_WALL_TIME_S = 10.0
TEAPOT = 418  # zoekt's pages return every error with this status
VERSION = f"argosy {__version__}"


def zoekt_routes(
    gateway: SearchGateway,
    *,
    names: Callable[[], Iterable[str]],
    search_page: ASGIApp | None = None,
    print_page: ASGIApp | None = None,
    throttle: FairThrottle | None = None,
    is_ready: Callable[[], bool] | None = None,
) -> list[Route]:
    """`names` returns all repository names of the catalog, because clients restrict a search by ids derived from names.
    `search_page` and `print_page` serve browsers on the paths where programs request JSON and raw files. `is_ready` is
    the readiness of the whole process, if it has more roles than the gateway.
    """
    api = _Api(gateway, names)
    pages = _Pages(gateway, is_ready or gateway.is_ready)
    api_admission = admission(throttle, respond=_respond_failure)
    json_search = Route("/search", pages.search, middleware=admission(throttle, respond=_respond_teapot))
    raw_file = Route("/print", pages.print)
    return [
        Route("/api/search", api.search, methods=_ALL_METHODS, middleware=api_admission),
        Route("/api/list", api.list, methods=_ALL_METHODS, middleware=api_admission),
        Route("/search", _ByFormat("json", json_search.app, search_page), methods=["GET"]),
        Route("/print", _ByFormat("raw", raw_file.app, print_page), methods=["GET"]),
        Route("/healthz", pages.healthz),
        Route("/readyz", pages.readyz),
        Route("/robots.txt", pages.robots),
    ]


# zoekt answers other methods with 405 and a JSON error; without them Starlette would answer with its own text.
_ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class _Api:
    """The JSON API: one object per response, bytes in base64."""

    def __init__(self, gateway: SearchGateway, names: Callable[[], Iterable[str]]) -> None:
        self._gateway = gateway
        self._names = names

    async def search(self, request: Request) -> Response:
        return await _respond(request, self._run_search)

    async def list(self, request: Request) -> Response:
        return await _respond(request, self._run_list)

    async def _run_search(self, request: Request, body: bytes) -> bytes:
        params = decode_request(body, ZoektSearchRequest)
        if not params.q:
            raise Invalid('missing query; set "Q"')
        parsed = parse(params.q)
        only = self._names_of_ids(params.repo_ids)
        options = options_of(params.opts)
        if needs_estimate(params.opts):
            options = await _with_bounds(self._gateway, parsed.query, options, only)
        answer = await self._gateway.search(parsed.query, _with_count(options, parsed), only=only)
        record_result(request.scope, answer)
        return encode(ZoektSearchReply(search_result(answer, parsed.query, is_estimate=options.estimate_only)))

    async def _run_list(self, _: Request, body: bytes) -> bytes:
        params = decode_request(body, ZoektListRequest) if body.strip() else ZoektListRequest()
        field = check_field(params.opts.field)
        query = parse(params.q).query if params.q else TRUE
        listing = await self._gateway.list(query)
        return encode(ZoektListReply(repo_list(listing, field=field, version=VERSION)))

    def _names_of_ids(self, ids: Collection[int] | None) -> Collection[str] | None:
        """The names of the repositories with these ids."""
        if ids is None:
            return None
        # Ids are hashes of names, so they are found by hashing all names (decision 0021).
        wanted = frozenset(ids)
        return frozenset(name for name in self._names() if repository_id(name) in wanted)


class _Pages:
    """The other paths of zoekt's server."""

    def __init__(self, gateway: SearchGateway, is_ready: Callable[[], bool]) -> None:
        self._gateway = gateway
        self._is_ready = is_ready

    async def search(self, request: Request) -> Response:
        try:
            return _json(encode(await self._page(request)))
        except ArgosyError as error:
            record_error(request.scope, error)
            return _teapot(error)

    async def _page(self, request: Request) -> page.Page:
        params = request.query_params
        text = params.get("q", "")
        if not text:
            raise Invalid("missing query; set q")
        parsed = parse(text)
        context = min(_number(params.get("ctx"), 0), page.CONTEXT_LINES_MAX)
        files = min(_number(params.get("num"), 0), page.FILES_MAX)
        is_debug = params.get("debug", "0") not in ("", "0")
        if page.is_repository_query(parsed.query):
            last = page.Last(text, files, context, True, is_debug)
            return page.repos_page(await self._gateway.list(parsed.query), last, params.get("order", ""))
        last = page.Last(text, files or page.FILES, context, True, is_debug)
        options = Options(
            files_max=last.num,
            wall_time_s=PAGE_WALL_TIME_S,
            context_lines=context,
            form=Form.LINES,
            explain_scores=is_debug,
        )
        options = await _with_bounds(self._gateway, parsed.query, options, None)
        answer = await self._gateway.search(parsed.query, _with_count(options, parsed))
        record_result(request.scope, answer)
        return page.result_page(answer, last, format_query(parsed.query))

    async def print(self, request: Request) -> Response:
        params = request.query_params
        try:
            repository, path = params.get("r", ""), params.get("f", "")
            if not repository or not path:
                raise Invalid("missing parameters; set r (repository) and f (file)")
            found = await self._gateway.file(FileRequest(repository, path, params.get("b", "")))
            if found.skipped:
                raise NotFound(f"content of {path!r} not indexed: {found.skipped}")
        except ArgosyError as error:
            return _teapot(error)
        # Served as plain text from a sandbox: file contents must not run as a page of this origin.
        headers = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox"}
        return Response(found.content, 200, headers, "text/plain; charset=utf-8")

    async def healthz(self, _: Request) -> Response:
        """Run a search through the nodes, as zoekt does, so that a gateway without nodes is not healthy."""
        options = Options(files_max=1, index_match_limit=1, total_match_limit=1, wall_time_s=PAGE_WALL_TIME_S)
        try:
            answer = await self._gateway.search(TRUE, options)
        except ArgosyError as error:
            return _failure(error)
        return _json(encode(search_result(answer, TRUE)))

    async def readyz(self, _: Request) -> Response:
        if self._is_ready():
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", 503, {"retry-after": str(RETRY_AFTER_S)})

    async def robots(self, _: Request) -> Response:
        return PlainTextResponse("User-agent: *\nDisallow: /search\nDisallow: /print\n")


class _ByFormat:
    """zoekt serves programs and browsers on the same paths: with `format=…` programs, without it browsers."""

    def __init__(self, format: str, app: ASGIApp, page: ASGIApp | None) -> None:
        self._query = f"format={format}"
        self._format = format
        self._app = app
        self._page = page or PlainTextResponse(f"no HTML page on this gateway; add {self._query}\n", 404)

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        is_program = Request(scope).query_params.get("format") == self._format
        await (self._app if is_program else self._page)(scope, receive, send)


async def _respond(request: Request, answer: Callable[[Request, bytes], Awaitable[bytes]]) -> Response:
    """Errors in zoekt's format, with our statuses."""
    if request.method != "POST":
        return _json(encode(ZoektError("Only POST is supported")), 405, {"allow": "POST"})
    try:
        body = await read_body(request, bytes_max=BODY_BYTES_MAX)
        return _json(await answer(request, body))
    except ArgosyError as error:
        record_error(request.scope, error)
        return _failure(error)


async def _with_bounds(gateway: SearchGateway, query: Query, options: Options, only: Collection[str] | None) -> Options:
    """The limits that zoekt's server would choose, from an estimate of the documents to search.

    zoekt estimates from all documents of the selected repositories. Here only documents that the index does not rule
    out count: a query with few candidates is as cheap in a large fleet as in a small one.
    """
    estimate = structs.replace(options, estimate_only=True)
    answer = await gateway.search(query, estimate, only=only)
    return with_zoekt_limits(options, answer.stats.files_considered)


def _with_count(options: Options, parsed: ParsedQuery) -> Options:
    """`count:` in the query overrides the option: the user typed it, while the client program filled in the option."""
    if parsed.count is None:
        return options
    if parsed.count == COUNT_ALL:
        return structs.replace(options, files_max=0, index_match_limit=0, total_match_limit=0)
    return structs.replace(options, files_max=parsed.count)


def _number(text: str | None, otherwise: int) -> int:
    """Parse a number of a page parameter; an invalid one counts as absent, as in zoekt."""
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= len(str(page.FILES_MAX))
    return int(text or "") if is_number else otherwise


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, "application/json")


def _failure(error: ArgosyError) -> Response:
    return _json(encode(ZoektError(redact(str(error)))), error.status, _retry_after(error))


def _respond_failure(error: ArgosyError, _: Scope) -> Response:
    return _failure(error)


def _respond_teapot(error: ArgosyError, _: Scope) -> Response:
    return _teapot(error)


def _teapot(error: ArgosyError) -> Response:
    """Zoekt's pages have one error status; an unavailable or busy fleet has its own."""
    headers = _retry_after(error)
    return PlainTextResponse(f"{redact(str(error))}\n", error.status if headers else TEAPOT, headers)


def _retry_after(error: ArgosyError) -> dict[str, str]:
    return {"retry-after": retry_after(error)} if isinstance(error, Throttled | Unavailable) else {}
