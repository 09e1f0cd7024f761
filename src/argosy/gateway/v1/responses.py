"""Converts results, files and fleet status to responses of the v1 API."""

import base64
from typing import Any

from msgspec import structs

from argosy.base.redact import redact
from argosy.gateway.ports import FleetStatus, RepoView
from argosy.gateway.v1 import model as v1
from argosy.gateway.zoekt.go_compat import decode_text, host_file_url, text
from argosy.registry.rows import RepositoryRow as CatalogRow
from argosy.search.catalog.addresses import repository_id
from argosy.search.fleet.model import FileText, FolderListing, Phase, RepoStatus
from argosy.search.model import (
    Chunk,
    FileMatch,
    Line,
    Missing,
    Repository,
    SearchResult,
    SymbolInfo,
)

_NO_STATUS = RepoStatus(name="", phase=Phase.WAITING)


def search_response(answer: SearchResult, query: str) -> v1.SearchResponse:
    """`query` is the query as parsed."""
    return v1.SearchResponse(
        query=query,
        complete=answer.is_complete,
        files=files_of(answer),
        stats=answer.stats,
        limits_hit=list(answer.limits_hit),
        missing=missing(answer),
    )


def stream_part(answer: SearchResult) -> v1.StreamPart:
    return v1.StreamPart(files_of(answer), missing(answer))


def stream_end(answer: SearchResult, query: str) -> v1.StreamEnd:
    order = [v1.FileRef(text(each.repository), text(each.path), list(each.branches)) for each in answer.files]
    return v1.StreamEnd(query, answer.is_complete, order, answer.stats, list(answer.limits_hit), missing(answer))


def files_of(answer: SearchResult) -> list[v1.FoundFile]:
    return [_file(each, answer.repositories.get(each.repository)) for each in answer.files]


def missing(answer: SearchResult) -> list[v1.MissingRepository]:
    return [_missing(each) for each in answer.missing]


def _missing(each: Missing) -> v1.MissingRepository:
    return v1.MissingRepository(text(each.repository), each.why, text(redact(each.detail)))


def _file(file: FileMatch, repository: Repository | None) -> v1.FoundFile:
    has_page = repository is not None and repository.file_url_template
    return v1.FoundFile(
        text(file.repository),
        text(file.path),
        file.language,
        list(file.branches),
        file.version,
        file.score,
        file.match_count,
        _page(repository, file.path, file.version, file.branches) if has_page else "",
        [_chunk(each) for each in file.chunks],
        [_line(each) for each in file.lines],
        None if file.content is None else decode_text(file.content),
        file.skipped,
        file.explanation,
    )


def _page(repository: Repository | None, path: str, version: str, branches: tuple[str, ...]) -> str:
    if repository is None:
        return ""
    branch = branches[0] if branches else ""
    return host_file_url(repository.file_url_template, "", version=version, path=path, branch=branch)


def _chunk(chunk: Chunk) -> v1.FoundChunk:
    # A range without definitions has the same fields in both models and is passed through as it is: a result has
    # hundreds of ranges, and copying each costs more than encoding it.
    ranges: Any = _ranges_with_definitions(chunk) if chunk.symbols else chunk.ranges
    return v1.FoundChunk(
        decode_text(chunk.content),
        chunk.start,
        ranges,
        chunk.best_line,
        chunk.score,
        chunk.is_file_name,
        chunk.is_clipped,
        chunk.explanation,
    )


def _ranges_with_definitions(chunk: Chunk) -> list[v1.FoundRange]:
    pairs = zip(chunk.ranges, chunk.symbols, strict=True)
    return [v1.FoundRange(each.start, each.end, _definition(symbol)) for each, symbol in pairs]


def _line(line: Line) -> v1.FoundLine:
    return v1.FoundLine(
        number=line.number,
        text=decode_text(line.content),
        start=line.start,
        end=line.end,
        fragments=[
            v1.FoundFragment(each.line_offset, each.offset, each.length, _definition(each.symbol))
            for each in line.fragments
        ],
        score=line.score,
        before=[decode_text(each) for each in line.before],
        after=[decode_text(each) for each in line.after],
        in_file_name=line.is_file_name,
        clipped=line.is_clipped,
        explanation=line.explanation,
    )


def _definition(symbol: SymbolInfo | None) -> v1.FoundDefinition | None:
    return v1.FoundDefinition(symbol.name, symbol.kind, symbol.parent, symbol.parent_kind) if symbol else None


def repository_view(view: RepoView) -> v1.RepositoryView:
    status = view.status or _NO_STATUS
    return v1.RepositoryView(
        name=text(view.name),
        id=repository_id(view.name),
        url=redact(view.spec.url),
        state=view.state,
        reason=redact(view.reason),
        pinned=view.spec.is_pinned,
        replicas=view.spec.replicas,
        branches=list(status.branches),
        holders=[v1.Holder(each.node, each.address, each.replica, each.epoch, each.state) for each in view.holders],
        phase=status.phase.value if view.status else "",
        progress=status.progress,
        refreshing=status.is_refreshing,
        documents=status.documents,
        content_bytes=status.content_bytes,
        memory_bytes=status.memory_bytes,
        index_time_ms=status.index_time_ms,
        fetch_time_ms=status.fetch_time_ms,
        claim_latency_s=status.claim_latency_s,
        indexed_at=status.indexed_at,
        last_served_at=status.last_served_at,
        searches=status.searches,
        failures=view.spec.failures,
    )


def redact_status(status: FleetStatus) -> FleetStatus:
    """The fleet with credentials removed from URLs and errors."""
    return structs.replace(status, repositories=tuple(_redact_repository(each) for each in status.repositories))


def _redact_repository(view: RepoView) -> RepoView:
    error = view.spec.last_error
    spec = structs.replace(view.spec, url=redact(view.spec.url), last_error=redact(error) if error else None)
    return structs.replace(view, spec=spec, reason=redact(view.reason))


def file_response(file: FileText) -> v1.FileResponse:
    content, encoding = _content(file.content)
    return v1.FileResponse(
        repository=text(file.repository.name),
        path=text(file.path),
        branches=list(file.branches),
        version=file.version,
        language=file.language,
        encoding=encoding,
        content=content,
        skipped=file.skipped,
        url=_page(file.repository, file.path, file.version, file.branches),
        outline=[v1.OutlineItem(each.name, each.kind, each.line, each.parent) for each in file.outline],
    )


def _content(content: bytes) -> tuple[str, v1.Encoding]:
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(content).decode(), "base64"


def folder_response(folder: FolderListing) -> v1.FolderResponse:
    names = [text(name) for name in folder.names]
    return v1.FolderResponse(text(folder.repository.name), text(folder.path), names, folder.is_cut)


def catalog_entry(row: CatalogRow, note: str = "") -> v1.CatalogEntry:
    return v1.CatalogEntry(
        name=row.repo_id,
        url=redact(row.url),
        branches=list(row.branches),
        pinned=row.is_pinned,
        replicas=row.replicas,
        max_bids=row.max_bids,
        note=note,
    )
