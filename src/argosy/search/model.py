"""What goes into the engine and what comes out: repositories, questions, answers.

These are msgspec structs rather than dataclasses because answers are made by the hundred and travel between nodes as
they are. Paths are text in Python's own convention for file names (undecodable bytes survive as surrogates), offsets
are bytes from the start of the file, line numbers and columns count from one, columns in characters.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

BRANCHES_MAX = 64  # one bit each in a document's branch mask


class Branch(msgspec.Struct, frozen=True):
    """A branch that was indexed, and the commit it stood at."""

    name: str
    version: str = ""


class Repository(msgspec.Struct, frozen=True):
    """What is known of a repository besides its files."""

    name: str
    id: int = 0
    branches: tuple[Branch, ...] = ()
    url: str = ""
    source: str = ""  # where it was read from
    file_url_template: str = ""
    commit_url_template: str = ""
    line_fragment_template: str = ""
    flags: Mapping[str, bool] = {}  # archived, fork, public
    metadata: Mapping[str, str] = {}
    aliases: tuple[str, ...] = ()
    rank: int = 0  # 0 to 65535; a tie between files goes to the higher
    latest_commit_s: float = 0.0


class Form(Enum):
    """How matches are told."""

    CHUNKS = "chunks"  # runs of whole lines with the ranges inside them
    LINES = "lines"  # one record per line; a match over several lines is split
    COUNT = "count"  # no files, only how many there are


class Options(msgspec.Struct, frozen=True):
    """The bounds of one search, and how its answer should look. Zero means no bound, except where it is said."""

    files_max: int = 50  # files shown
    matches_max: int = 0  # matches shown, over all files
    file_matches_max: int = 0  # matches shown of one file
    index_match_limit: int = 100_000  # stop looking through one repository after so many matches
    total_match_limit: int = 0  # start no further repository after so many
    wall_time_s: float = 20.0  # then answer with what was found
    context_lines: int = 0
    form: Form = Form.CHUNKS
    with_content: bool = False  # the whole file in every file match
    use_bm25: bool = False
    line_bytes_max: int = 2_000  # longer lines are clipped around their matches, and marked
    estimate_only: bool = False  # only say how many files would be considered
    explain_scores: bool = False  # say of every match and file why it is worth what it is
    with_checksum: bool = False  # the CRC-64/ISO of the content in every file match
    pre_encoded: bool = False  # return chunks encoded as msgpack, for a caller that decodes only what it shows


# What an answer is made of is made by the ten thousand and has no way back to itself: the collector need not look at
# it (`gc=False`).
class Location(msgspec.Struct, frozen=True, gc=False):
    offset: int
    line: int
    column: int


class Range(msgspec.Struct, frozen=True, gc=False):
    start: Location
    end: Location


class SymbolInfo(msgspec.Struct, frozen=True, gc=False):
    """A definition a match lies in."""

    name: str
    kind: str
    parent: str = ""
    parent_kind: str = ""


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Whole lines (or the file's name) with matches in them. `is_clipped`: `content` leaves out parts of long lines."""

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
    """A match within a line: where in the line, where in the file, how long, all in bytes."""

    line_offset: int
    offset: int
    length: int
    symbol: SymbolInfo | None = None


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line with matches; number 0 is the file's name."""

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
    """A file that satisfies the query."""

    repository: str
    path: str
    language: str = ""
    branches: tuple[str, ...] = ()
    version: str = ""
    score: float = 0.0
    match_count: int = 0  # all of them, shown or not
    chunks: tuple[Chunk, ...] = ()
    lines: tuple[Line, ...] = ()
    content: bytes | None = None
    checksum: bytes = b""  # if it was asked for
    repository_id: int = 0
    repository_rank: int = 0
    skipped: str = ""  # why the content was not indexed, if it was not
    explanation: str = ""
    encoded_matches: bytes = b""  # the chunks as msgpack, not decoded yet (`encoded_matches.py`)


class Stats(msgspec.Struct, frozen=True):
    """What a search cost and found. Sums over indexes, except the duration."""

    files: int = 0  # that matched
    matches: int = 0
    files_considered: int = 0  # candidates by the index
    files_loaded: int = 0  # whose text was looked at
    files_skipped: int = 0  # left unseen when a bound was met
    content_bytes: int = 0  # text looked at
    index_bytes: int = 0  # postings of the trigrams looked up
    indexes_searched: int = 0
    indexes_skipped: int = 0  # a bound was met before they were reached
    indexes_excluded: int = 0  # the query itself rules them out
    regexps_considered: int = 0  # files a regular expression was asked about
    ngram_lookups: int = 0
    duration_s: float = 0.0  # from the beginning of the work
    wait_s: float = 0.0  # for a thread, before that


class LimitHit(Enum):
    """A bound that cut an answer short."""

    INDEX_MATCHES = "index_match_limit"
    TOTAL_MATCHES = "total_match_limit"
    WALL_TIME = "wall_time_s"
    FILES_SHOWN = "files_max"
    MATCHES_SHOWN = "matches_max"
    CANCELLED = "cancelled"


class MissingReason(Enum):
    """Why a repository that was asked for is not in an answer."""

    UNOWNED = "unowned"  # no node holds it just now
    WARMING = "warming"  # its holder fetches or indexes it
    TIMED_OUT = "timed out"  # its holder did not answer in time
    FAILED = "failed"  # its holder could not be reached, or answered with an error


class Missing(msgspec.Struct, frozen=True):
    """A repository that the answer says nothing about."""

    repository: str
    why: MissingReason
    detail: str = ""


class SearchResult(msgspec.Struct, frozen=True, gc=False):
    """The best matches, what they cost, and all that keeps the answer from being the whole truth (GW-1)."""

    files: tuple[FileMatch, ...] = ()
    stats: Stats = Stats()
    limits_hit: tuple[LimitHit, ...] = ()  # bounds that were met on the way
    missing: tuple[Missing, ...] = ()  # repositories that nobody could look at; by name
    repositories: Mapping[str, Repository] = {}  # those the files are from; only a fleet tells them

    @property
    def is_complete(self) -> bool:
        return not self.limits_hit and not self.missing
