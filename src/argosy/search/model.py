"""The data model of the engine: repositories, search options, results.

These are msgspec structs, not dataclasses, because results have hundreds of them and are sent between nodes. Paths are
strings in Python's convention for file names (undecodable bytes are surrogates). Offsets are bytes from the start of
the file. Lines and columns count from one, columns in characters.

A node can return matches as msgpack (`Options.pre_encoded`), because a gateway receives several times the files that it
shows. Kernels encode chunks without creating objects; what the gateway needs to rank and limit files stays outside, and
it decodes only the files that it shows (decision 0033).
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from argosy.base.errors import Unavailable

# zoekt has the same limit.
BRANCHES_MAX = 64  # one bit each in the branch mask of a document


class Branch(msgspec.Struct, frozen=True):
    """An indexed branch and its commit."""

    name: str
    version: str = ""


class Repository(msgspec.Struct, frozen=True):
    """A repository without its files."""

    name: str
    id: int = 0
    branches: tuple[Branch, ...] = ()
    url: str = ""
    source: str = ""  # where the files come from
    file_url_template: str = ""
    commit_url_template: str = ""
    line_fragment_template: str = ""
    # msgspec copies an empty mutable default for each struct.
    flags: Mapping[str, bool] = {}  # archived, fork, public
    metadata: Mapping[str, str] = {}
    aliases: tuple[str, ...] = ()
    rank: int = 0  # 0 to 65535; breaks ties between files, higher first
    latest_commit_s: float = 0.0


class Form(Enum):
    """The form of matches in a result."""

    CHUNKS = "chunks"  # runs of whole lines with the ranges inside them
    LINES = "lines"  # one record per line; a match that spans lines is split
    COUNT = "count"  # no files, only their number


class Options(msgspec.Struct, frozen=True):
    """The limits of a search and the form of its result. Zero means no limit."""

    # The limits of matches and of time are zoekt's defaults, so that clients of its API get results of the same size.
    files_max: int = 50  # files shown
    matches_max: int = 0  # matches shown, over all files
    file_matches_max: int = 0  # matches shown of one file
    index_match_limit: int = 100_000  # stop searching a repository after so many matches
    total_match_limit: int = 0  # start no further repository after so many matches
    wall_time_s: float = 20.0  # then return the matches found so far
    context_lines: int = 0
    form: Form = Form.CHUNKS
    with_content: bool = False  # the whole file in every file match
    use_bm25: bool = False
    line_bytes_max: int = 2_000  # longer lines are clipped around their matches, and marked
    estimate_only: bool = False  # only count the candidate files
    explain_scores: bool = False  # explain the score of every match and file
    with_checksum: bool = False  # the CRC-64/ISO of the content in every file match
    pre_encoded: bool = False  # return chunks encoded as msgpack, for a caller that decodes only what it shows


# A result has ten thousands of these and they cannot form cycles, so the garbage collector skips them (`gc=False`).
class Location(msgspec.Struct, frozen=True, gc=False):
    offset: int
    line: int
    column: int


class Range(msgspec.Struct, frozen=True, gc=False):
    start: Location
    end: Location


class SymbolInfo(msgspec.Struct, frozen=True, gc=False):
    """The definition that a match lies in."""

    name: str
    kind: str
    parent: str = ""
    parent_kind: str = ""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Whole lines, or the file name, with matches. `is_clipped`: parts of long lines are omitted."""

    content: bytes
    start: Location  # of the content
    ranges: tuple[Range, ...]
    symbols: tuple[SymbolInfo | None, ...] = ()  # parallel to ranges, or empty
    is_file_name: bool = False
    is_clipped: bool = False
    best_line: int = 0
    score: float = 0.0
    explanation: str = ""


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """A match within a line: offset in the line, offset in the file, length, all in bytes."""

    line_offset: int
    offset: int
    length: int
    symbol: SymbolInfo | None = None


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line with matches; number 0 is the file name."""

    content: bytes  # without its newline
    start: int
    end: int  # past the newline
    number: int
    fragments: tuple[Fragment, ...]
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    is_file_name: bool = False
    is_clipped: bool = False
    score: float = 0.0
    explanation: str = ""


class FileMatch(msgspec.Struct, frozen=True, gc=False):
    """A file that matches the query."""

    repository: str
    path: str
    language: str = ""
    branches: tuple[str, ...] = ()
    version: str = ""
    score: float = 0.0
    match_count: int = 0  # including those not shown
    chunks: tuple[Chunk, ...] = ()
    lines: tuple[Line, ...] = ()
    content: bytes | None = None
    checksum: bytes = b""  # if requested
    repository_id: int = 0
    repository_rank: int = 0
    skipped: str = ""  # why the content is not indexed, or empty
    explanation: str = ""
    encoded_matches: bytes = b""  # the chunks as msgpack, not decoded yet (`decode_matches`)


class Stats(msgspec.Struct, frozen=True):
    """Statistics of a search: sums over indexes, except the duration."""

    files: int = 0  # with a match
    matches: int = 0
    files_considered: int = 0  # candidates of the index
    files_loaded: int = 0  # whose text was read
    files_skipped: int = 0  # not read because a limit was hit
    content_bytes: int = 0  # text read
    index_bytes: int = 0  # postings of the trigrams looked up
    indexes_searched: int = 0
    indexes_skipped: int = 0  # not searched because a limit was hit
    indexes_excluded: int = 0  # excluded by the query itself
    regexps_considered: int = 0  # files matched by a regular expression
    ngram_lookups: int = 0
    duration_s: float = 0.0  # from the start of the work
    wait_s: float = 0.0  # for a thread, before the start


class LimitHit(Enum):
    """A limit that truncated a result."""

    INDEX_MATCHES = "index_match_limit"
    TOTAL_MATCHES = "total_match_limit"
    WALL_TIME = "wall_time_s"
    FILES_SHOWN = "files_max"
    MATCHES_SHOWN = "matches_max"
    CANCELLED = "cancelled"


class MissingReason(Enum):
    """Why a requested repository is missing from a result."""

    UNOWNED = "unowned"  # no node holds it
    WARMING = "warming"  # its holder is fetching or indexing it
    TIMED_OUT = "timed out"  # its holder did not respond in time
    FAILED = "failed"  # its holder is unreachable or returned an error


class Missing(msgspec.Struct, frozen=True):
    """A repository that a result does not cover."""

    repository: str
    why: MissingReason
    detail: str = ""


class SearchResult(msgspec.Struct, frozen=True, gc=False):
    """The best files, statistics, and everything that makes the result incomplete (GW-1)."""

    files: tuple[FileMatch, ...] = ()
    stats: Stats = Stats()
    limits_hit: tuple[LimitHit, ...] = ()  # limits that truncated the result
    missing: tuple[Missing, ...] = ()  # repositories that could not be searched, by name
    repositories: Mapping[str, Repository] = {}  # the repositories of the files; only set by a gateway

    @property
    def is_complete(self) -> bool:
        return not self.limits_hit and not self.missing


# Created once, because a decoder compiles its type.
_decoder = msgspec.msgpack.Decoder(tuple[Chunk, ...])
_line_decoder = msgspec.msgpack.Decoder(tuple[Line, ...])


def decode_matches(file: FileMatch) -> FileMatch:
    """The file with its chunks decoded; the same object if they are not encoded."""
    if not file.encoded_matches:
        return file
    return msgspec.structs.replace(file, chunks=decode_chunks(file.encoded_matches), encoded_matches=b"")


def decode_chunks(encoded: bytes | memoryview) -> tuple[Chunk, ...]:
    """Raises Unavailable if these are not chunks, because the caller cannot fix that."""
    try:
        return _decoder.decode(encoded)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"invalid matches from a node: {error}; check that all nodes run the same version") from None


def decode_lines(encoded: memoryview) -> tuple[Line, ...]:
    """Decodes lines that a kernel of this process has encoded."""
    return _line_decoder.decode(encoded)
