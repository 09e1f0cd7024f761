"""The assigner over HTTP: announcements in, its state out, as JSON and as a page.

`PUT /announce` (also at its former path) takes CBOR, or JSON by content type, and answers 204 when the announcement
is queued; errors are plain text, as publishers expect. Changes need the admin token.
"""

from collections.abc import Awaitable, Callable
from html import escape

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from argosy.base.errors import ArgosyError, Throttled, Unavailable
from argosy.base.http import EXCEPTION_HANDLERS, check_admin, json_response, read_body, retry_after
from argosy.base.metrics import CONTENT_TYPE
from argosy.base.redact import redact
from argosy.ipni.assigner.advice import Advice, advise
from argosy.ipni.assigner.pool_state import PoolState
from argosy.ipni.assigner.service import AssignerService
from argosy.ipni.formats.head import decode_announcement
from argosy.ownership.assigner import holders, target_replication

PUBLISHERS_SHOWN_MAX = 100_000


def pool_rows(pool_state: PoolState) -> list[dict[str, object]]:
    """One row per indexer, in the order of the configuration."""
    pending = pool_state.pending_handoffs()
    doubles = pool_state.doubles()
    rows: list[dict[str, object]] = []
    for entry in pool_state.configuration.entries:
        url = entry.admin_url
        report = pool_state.report(url)
        rows.append(
            {
                "admin_url": url,
                "find_url": entry.find_url,
                "ingest_url": entry.ingest_url,
                "id": "" if report is None else report.id,
                "state": "twice" if url in doubles else _state(pool_state, url),
                "usage_percent": -1.0 if report is None else report.usage_percent,
                "assigned": 0 if report is None else len(report.assigned),
                "preferred": 0 if report is None else len(report.preferred),
                "presets": sorted(entry.presets),
                "owed": list(pending.get(url, ())),
                "problem": pool_state.problem(url),
            }
        )
    return rows


def assignment_rows(pool_state: PoolState, short: tuple[str, ...] = ()) -> list[dict[str, object]]:
    """One row per publisher: its holders, the frozen indexers that follow it for removals, and the required number."""
    pool = pool_state.pool()
    publishers = sorted(set(short).union(*(state.assigned for state in pool)))[:PUBLISHERS_SHOWN_MAX]
    rows: list[dict[str, object]] = []
    for publisher in publishers:
        holding = holders(publisher, pool, pool_state.policy)
        rows.append(
            {
                "publisher": publisher,
                "holders": list(holding),
                "frozen": [url for url in pool_state.audience(publisher) if url not in holding],
                "required": target_replication(publisher, pool_state.policy, len(pool)),
                "is_short": pool_state.is_short(publisher),
            }
        )
    return rows


def render_page(pool_state: PoolState, short: tuple[str, ...] = ()) -> str:
    """The pool as one HTML page, without scripts."""
    columns = ("admin_url", "id", "state", "usage_percent", "assigned", "owed", "problem")
    head = "".join(f"<th>{_column_title(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(row[name])}</td>" for name in columns) + "</tr>" for row in pool_rows(pool_state)
    )
    advice = "".join(f"<li>{_advice_html(each)}</li>" for each in advise(pool_state)) or "<li>none</li>"
    waiting = f"<p>{len(short)} announced publishers wait for an indexer.</p>" if short else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Assigner</title>'
        "<style>body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
        "td,th{border:1px solid #888;padding:.3em .6em;text-align:left}</style></head><body>"
        "<h1>Assigner</h1><table><caption>The pool</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{waiting}<h2>Advice</h2><ul>{advice}</ul></body></html>\n"
    )


def _state(pool_state: PoolState, url: str) -> str:
    report = pool_state.report(url)
    if report is None:
        return "unknown"
    return "frozen" if report.is_frozen else "active"


def _column_title(name: str) -> str:
    return escape(name.replace("_", " "))


def _cell(value: object) -> str:
    return escape(str(len(value)) if isinstance(value, list) else str(value))


def _advice_html(advice: Advice) -> str:
    about = f"{escape(advice.indexer)}: " if advice.indexer else ""
    return f"<b>{escape(advice.kind)}</b> {about}{escape(advice.text)}"


ANNOUNCE_BYTES_MAX = 1 << 20  # as on indexers

Reload = Callable[[], Awaitable[None]]


def assigner_routes(service: AssignerService, *, admin_token: str | None, reload: Reload, version: str) -> list[Route]:
    """Routes for an application with `base.http.EXCEPTION_HANDLERS`; `reload` reads the pool file again."""

    async def announce(request: Request) -> Response:
        try:
            data = await read_body(request, bytes_max=ANNOUNCE_BYTES_MAX)
            service.announce(decode_announcement(data, _is_json(request)))
        except ArgosyError as why:
            return _refusal(why)
        return Response(status_code=204)

    async def health(_: Request) -> Response:
        return PlainTextResponse(f"assigner ready {version}\n", headers={"cache-control": "no-cache"})

    async def pool(_: Request) -> Response:
        return json_response({"indexers": pool_rows(service.pool_state), "is_polled": service.is_ready()})

    async def assignments(_: Request) -> Response:
        return json_response({"publishers": assignment_rows(service.pool_state, service.short)})

    async def advice(_: Request) -> Response:
        return json_response({"advice": advise(service.pool_state)})

    async def metrics(_: Request) -> Response:
        # At the scrape as well as at polls, because announcements change the assignments in between.
        service.telemetry.set_gauges(service.pool_state, len(service.short))
        return Response(service.telemetry.metrics.exposition(), media_type=CONTENT_TYPE)

    async def poll(request: Request) -> Response:
        check_admin(request, admin_token)
        await service.poll()
        return json_response({"indexers": pool_rows(service.pool_state)})

    async def reload_pool(request: Request) -> Response:
        check_admin(request, admin_token)
        await reload()
        return json_response({"indexers": pool_rows(service.pool_state)})

    async def page(_: Request) -> Response:
        return HTMLResponse(render_page(service.pool_state, service.short))

    return [
        Route("/announce", announce, methods=["PUT"]),
        Route("/ingest/announce", announce, methods=["PUT"]),
        Route("/health", health),
        Route("/pool", pool),
        Route("/assignments", assignments),
        Route("/advice", advice),
        Route("/metrics", metrics),
        Route("/poll", poll, methods=["POST"]),
        Route("/reload", reload_pool, methods=["POST"]),
        Route("/", page),
    ]


def assigner_app(service: AssignerService, *, admin_token: str | None, reload: Reload, version: str) -> Starlette:
    """The routes as an application."""
    routes = assigner_routes(service, admin_token=admin_token, reload=reload, version=version)
    return Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _refusal(why: ArgosyError) -> Response:
    headers = {"retry-after": retry_after(why)} if isinstance(why, Throttled | Unavailable) else {}
    # Redacted: an error may quote a URL with credentials.
    return PlainTextResponse(redact(str(why)) + "\n", why.status, headers)
