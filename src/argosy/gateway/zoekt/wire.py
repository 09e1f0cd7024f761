"""Response structs of zoekt's JSON API; field names are zoekt's.

A field without a default is always sent. Version, Branches and Score, which zoekt omits when empty, are always sent,
because one of its clients requires them and none rejects them. `Files` is never null: zoektpy rejects null.
`Missing`, `Complete` and `LimitsHit` are additions (GW-1).
"""

import msgspec

from argosy.gateway.zoekt.go_compat import ZERO_TIME

# The versions that zoekt itself reports.
INDEX_FORMAT_VERSION = 16
INDEX_FEATURE_VERSION = 12
INDEX_MIN_READER_VERSION = 10
CHECKSUM_BYTES = 8  # CRC-64


class ZoektLocation(msgspec.Struct, frozen=True, rename="pascal"):
    byte_offset: int
    line_number: int
    column: int


class ZoektRange(msgspec.Struct, frozen=True, rename="pascal"):
    start: ZoektLocation
    end: ZoektLocation


class ZoektSymbol(msgspec.Struct, frozen=True, rename="pascal"):
    sym: str
    kind: str
    parent: str
    parent_kind: str


class ZoektChunkMatch(msgspec.Struct, frozen=True, rename="pascal"):
    debug_score: str
    content: bytes
    ranges: list[ZoektRange]
    symbol_info: list[ZoektSymbol | None] | None
    file_name: bool
    content_start: ZoektLocation
    score: float
    best_line_match: int


class ZoektLineFragment(msgspec.Struct, frozen=True, rename="pascal"):
    symbol_info: ZoektSymbol | None
    line_offset: int
    offset: int
    match_length: int


class ZoektLineMatch(msgspec.Struct, frozen=True, rename="pascal"):
    line: bytes
    line_start: int
    line_end: int
    line_number: int
    before: bytes | None
    after: bytes | None
    file_name: bool
    score: float
    debug_score: str
    line_fragments: list[ZoektLineFragment]


class ZoektFileMatch(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True, kw_only=True):
    file_name: str
    repository: str
    version: str
    language: str
    debug: str = ""
    branches: tuple[str, ...]
    line_matches: list[ZoektLineMatch] = []
    chunk_matches: list[ZoektChunkMatch] = []
    content: bytes = b""
    checksum: bytes
    score: float
    repository_priority: float = 0.0
    repository_id: int = msgspec.field(default=0, name="RepositoryID")


class ZoektStats(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
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


class ZoektMissing(msgspec.Struct, frozen=True, rename="pascal"):
    """A repository that could not be searched."""

    repository: str
    why: str
    detail: str


class ZoektSearchResult(ZoektStats, frozen=True, rename="pascal", kw_only=True):
    files: list[ZoektFileMatch]
    repo_urls: dict[str, str] = msgspec.field(name="RepoURLs")
    line_fragments: dict[str, str]
    complete: bool
    limits_hit: list[str]
    missing: list[ZoektMissing]


class ZoektSearchReply(msgspec.Struct, frozen=True, rename="pascal"):
    result: ZoektSearchResult


class ZoektRepositoryBranch(msgspec.Struct, frozen=True, rename="pascal"):
    name: str
    version: str


class ZoektRepository(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    tenant_id: int = msgspec.field(default=0, name="TenantID")
    id: int = msgspec.field(name="ID")
    name: str
    url: str = msgspec.field(name="URL")
    metadata: dict[str, str]
    source: str
    branches: list[ZoektRepositoryBranch]
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


class ZoektIndexMetadata(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    index_format_version: int = INDEX_FORMAT_VERSION
    index_feature_version: int = INDEX_FEATURE_VERSION
    index_min_reader_version: int = INDEX_MIN_READER_VERSION
    index_time: str
    plain_ascii: bool = msgspec.field(default=False, name="PlainASCII")
    language_map: dict[str, int]
    zoekt_version: str
    id: str = msgspec.field(name="ID")


class ZoektRepoStats(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    repos: int
    shards: int
    documents: int
    index_bytes: int
    content_bytes: int
    new_lines_count: int
    default_branch_new_lines_count: int
    other_branches_new_lines_count: int


class ZoektRepoListEntry(msgspec.Struct, frozen=True, rename="pascal"):
    repository: ZoektRepository
    index_metadata: ZoektIndexMetadata
    stats: ZoektRepoStats


class ZoektMinimalRepoListEntry(msgspec.Struct, frozen=True, rename="pascal"):
    has_symbols: bool
    branches: list[ZoektRepositoryBranch]
    index_time_unix: int


class ZoektRepoList(msgspec.Struct, frozen=True, rename="pascal", kw_only=True):
    repos: list[ZoektRepoListEntry]
    repos_map: dict[int, ZoektMinimalRepoListEntry]
    crashes: int
    stats: ZoektRepoStats
    complete: bool
    missing: list[ZoektMissing]


class ZoektListReply(msgspec.Struct, frozen=True, rename="pascal"):
    list: ZoektRepoList


class ZoektError(msgspec.Struct, frozen=True, rename="pascal"):
    error: str
