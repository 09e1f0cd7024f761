"""Response structs of zoekt's JSON API.

A field without a default is always sent. Version, Branches and Score, which zoekt leaves out when empty, are sent as
well, because one of its clients insists on them and none minds. `Missing`, `Complete` and `LimitsHit` are ours (GW-1).
"""

import msgspec

from argosy.gateway.zoekt.go_json import ZERO_TIME

INDEX_FORMAT_VERSION = 16
INDEX_FEATURE_VERSION = 12
INDEX_MIN_READER_VERSION = 10
CHECKSUM_BYTES = 8  # CRC-64


class Location(msgspec.Struct, frozen=True, rename="pascal"):
    byte_offset: int
    line_number: int
    column: int


class Range(msgspec.Struct, frozen=True, rename="pascal"):
    start: Location
    end: Location


class Symbol(msgspec.Struct, frozen=True, rename="pascal"):
    sym: str
    kind: str
    parent: str
    parent_kind: str


class ChunkMatch(msgspec.Struct, frozen=True, rename="pascal"):
    debug_score: str
    content: bytes
    ranges: list[Range]
    symbol_info: list[Symbol | None] | None
    file_name: bool
    content_start: Location
    score: float
    best_line_match: int


class LineFragment(msgspec.Struct, frozen=True, rename="pascal"):
    symbol_info: Symbol | None
    line_offset: int
    offset: int
    match_length: int


class LineMatch(msgspec.Struct, frozen=True, rename="pascal"):
    line: bytes
    line_start: int
    line_end: int
    line_number: int
    before: bytes | None
    after: bytes | None
    file_name: bool
    score: float
    debug_score: str
    line_fragments: list[LineFragment]


class FileMatch(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True, kw_only=True):
    file_name: str
    repository: str
    version: str
    language: str
    debug: str = ""
    branches: tuple[str, ...]
    line_matches: list[LineMatch] = []
    chunk_matches: list[ChunkMatch] = []
    content: bytes = b""
    checksum: bytes
    score: float
    repository_priority: float = 0.0
    repository_id: int = msgspec.field(default=0, name="RepositoryID")


class Stats(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    """Statistics of a search; durations are in nanoseconds."""

    content_bytes_loaded: int = 0
    index_bytes_loaded: int = 0
    crashes: int = 0
    duration: int = 0
    file_count: int = 0
    shard_files_considered: int = 0
    files_considered: int = 0
    files_loaded: int = 0
    files_skipped: int = 0
    shards_scanned: int = 0
    shards_skipped: int = 0
    shards_skipped_filter: int = 0
    match_count: int = 0
    ngram_matches: int = 0
    ngram_lookups: int = 0
    wait: int = 0
    match_tree_construction: int = 0
    match_tree_search: int = 0
    regexps_considered: int = 0
    flush_reason: int = 0


class Missing(msgspec.Struct, frozen=True, rename="pascal"):
    """A repository that could not be searched."""

    repository: str
    why: str
    detail: str


class SearchResult(Stats, frozen=True, rename="pascal", kw_only=True):
    files: list[FileMatch]
    repo_urls: dict[str, str] = msgspec.field(name="RepoURLs")
    line_fragments: dict[str, str]
    complete: bool
    limits_hit: list[str]
    missing: list[Missing]


class ZoektSearchReply(msgspec.Struct, frozen=True, rename="pascal"):
    result: SearchResult


class RepositoryBranch(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    version: str


class Repository(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    tenant_id: int = msgspec.field(default=0, name="TenantID")
    id: int = msgspec.field(name="ID")
    name: str
    url: str = msgspec.field(name="URL")
    metadata: dict[str, str]
    source: str
    branches: list[RepositoryBranch]
    sub_repo_map: dict[str, str] = {}
    commit_url_template: str = msgspec.field(name="CommitURLTemplate")
    file_url_template: str = msgspec.field(name="FileURLTemplate")
    line_fragment_template: str
    raw_config: dict[str, str]
    rank: int
    index_options: str = ""
    has_symbols: bool
    tombstone: bool = False
    latest_commit_date: str = ZERO_TIME


class IndexMetadata(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    index_format_version: int = INDEX_FORMAT_VERSION
    index_feature_version: int = INDEX_FEATURE_VERSION
    index_min_reader_version: int = INDEX_MIN_READER_VERSION
    index_time: str
    plain_ascii: bool = msgspec.field(default=False, name="PlainASCII")
    language_map: dict[str, int]
    zoekt_version: str
    id: str = msgspec.field(name="ID")


class RepoStats(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    repos: int
    shards: int
    documents: int
    index_bytes: int
    content_bytes: int
    new_lines_count: int
    default_branch_new_lines_count: int
    other_branches_new_lines_count: int


class RepoListEntry(msgspec.Struct, frozen=True, rename="pascal"):
    repository: Repository
    index_metadata: IndexMetadata
    stats: RepoStats


class MinimalRepoListEntry(msgspec.Struct, frozen=True, rename="pascal"):
    has_symbols: bool
    branches: list[RepositoryBranch]
    index_time_unix: int


class RepoList(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    repos: list[RepoListEntry]
    repos_map: dict[int, MinimalRepoListEntry]
    crashes: int
    stats: RepoStats
    complete: bool
    missing: list[Missing]


class ZoektListReply(msgspec.Struct, frozen=True, rename="pascal"):
    list: RepoList


class Failure(msgspec.Struct, frozen=True, rename="pascal"):
    error: str
