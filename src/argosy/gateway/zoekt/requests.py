"""Requests of zoekt's clients, decoded as Go's decoder does, and their meaning for a search.

Keys match case-insensitively, unknown keys are ignored (old clients send options that no longer exist), and null is the
same as absent. Values are strict: a string where a number belongs is an error.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import structs

from argosy.base.errors import Invalid
from argosy.search.model import Form, Options

# zoekt's default, if the client names none.
WALL_TIME_S = 20.0
WALL_TIME_S_MAX = 120.0
CONTEXT_LINES_MAX = 100
# zoekt's default, if the client sets none; a negative value means no limit.
INDEX_MATCH_LIMIT = 100_000
LINE_BYTES_MAX = 1 << 16  # zoekt never clips; a result with dozens of longer lines would be many megabytes
REPO_IDS_MAX = 100_000
DEPTH_MAX = 32  # nesting of a request's JSON: ours has three levels, and lowering the keys is recursive

MANY_DOCUMENTS = 10_000  # zoekt's threshold between its two formulas for limits (cmd json.go)
SECOND_NS = 1_000_000_000

_Number = Annotated[int, msgspec.Meta(ge=1 - 2**63, le=2**63 - 1)]
_RepoId = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_T = TypeVar("_T")


class SearchOpts(msgspec.Struct, frozen=True, rename=lambda name: name.replace("_", "")):
    """Field names are zoekt's in lower case: Go matches keys case-insensitively, so keys are lowered first."""

    estimate_doc_count: bool = False
    whole: bool = False
    shard_max_match_count: _Number = 0
    total_max_match_count: _Number = 0
    shard_repo_max_match_count: _Number = 0
    max_wall_time: _Number = 0  # nanoseconds
    max_doc_display_count: _Number = 0
    max_match_display_count: _Number = 0
    num_context_lines: _Number = 0
    chunk_matches: bool = False
    use_bm25_scoring: bool = False
    debug_score: bool = False


class ZoektSearchRequest(msgspec.Struct, frozen=True, rename=lambda name: name.replace("_", "")):
    q: str = ""
    repo_ids: Annotated[list[_RepoId], msgspec.Meta(max_length=REPO_IDS_MAX)] | None = None
    opts: SearchOpts = SearchOpts()


class ListOpts(msgspec.Struct, frozen=True):
    field: _Number = 0


class ZoektListRequest(msgspec.Struct, frozen=True):
    q: str = ""
    opts: ListOpts = ListOpts()


def decode_request(body: bytes, wanted: type[_T]) -> _T:
    """Decode a request; raises Invalid."""
    try:
        found = msgspec.json.decode(body)
        if not isinstance(found, dict):
            raise Invalid('invalid body; send a JSON object: {"Q": "…"}')
        return msgspec.convert(_lower_keys(found), wanted)
    except RecursionError:
        raise Invalid('invalid body: JSON nested too deeply; send {"Q": "…"}') from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"invalid body: {error}") from None


def _lower_keys(found: Any, depth: int = 0) -> Any:
    """The value with lower-case keys and without nulls."""
    if isinstance(found, dict):
        if depth > DEPTH_MAX:
            raise RecursionError
        # Null is the same as absent in Go, while msgspec would reject it where a number belongs.
        return {key.lower(): _lower_keys(value, depth + 1) for key, value in found.items() if value is not None}
    return found


def options_of(opts: SearchOpts) -> Options:
    """Zoekt's limits as ours. A repository has one index here, so limits per repository and per shard are one."""
    # Sourcebot sends -1 for "no limit", which is 0 here; 0 and absent mean zoekt's default.
    shard = opts.shard_max_match_count or INDEX_MATCH_LIMIT
    return Options(
        files_max=max(0, opts.max_doc_display_count),
        matches_max=max(0, opts.max_match_display_count),
        index_match_limit=_tighter(max(0, shard), max(0, opts.shard_repo_max_match_count)),
        total_match_limit=max(0, opts.total_max_match_count),
        wall_time_s=_seconds(opts.max_wall_time),
        context_lines=min(max(0, opts.num_context_lines), CONTEXT_LINES_MAX),
        form=Form.CHUNKS if opts.chunk_matches else Form.LINES,
        with_content=opts.whole,
        use_bm25=opts.use_bm25_scoring,
        line_bytes_max=LINE_BYTES_MAX,
        estimate_only=opts.estimate_doc_count,
        explain_scores=opts.debug_score,
        with_checksum=True,
    )


def needs_estimate(opts: SearchOpts) -> bool:
    """Whether the limits depend on the number of documents to search."""
    return opts.max_doc_display_count > 0 and opts.shard_max_match_count == 0 and not opts.estimate_doc_count


def with_zoekt_limits(options: Options, documents: int) -> Options:
    """The limits that zoekt's server chooses for `files_max` shown files among this many documents.

    The formulas are zoekt's own (its `json.go`), so that a client sees the same cut-offs on both servers.
    """
    shown = options.files_max
    if documents > MANY_DOCUMENTS:
        limit = 5 * shown + 5 * shown // (documents // 1000)
        return structs.replace(options, index_match_limit=_tighter(limit, options.index_match_limit))
    limit = documents + 100 * shown
    return structs.replace(
        options, index_match_limit=_tighter(limit, options.index_match_limit), total_match_limit=limit
    )


def _tighter(first: int, second: int) -> int:
    """The smaller of two limits, where 0 means none."""
    return min(first, second) if first and second else first or second


def _seconds(nanoseconds: int) -> float:
    return min(nanoseconds / SECOND_NS, WALL_TIME_S_MAX) if nanoseconds > 0 else WALL_TIME_S
