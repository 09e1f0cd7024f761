"""Notes on stderr beside the result: limits that cut it short, unreadable files, statistics."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from argosy.cli.search_sources import IndexSummary, LoadedPaths
from argosy.cli.terminal_text import safe_name

if TYPE_CHECKING:
    from argosy.search.model import Options, SearchResult


def format_unread(found: IndexSummary) -> Iterator[str]:
    """Files whose content could not be searched."""
    from argosy.search.documents import DOCUMENT_BYTES_MAX, SkipReason

    unread = sum(found.skipped[reason] for reason in (SkipReason.UNREADABLE, SkipReason.MISSING))
    if unread:
        yield f"warning: {_files(unread)} could not be read, such as {safe_name(found.unread)}"
    large = sum(found.skipped[reason] for reason in (SkipReason.TOO_LARGE, SkipReason.TOO_MANY_TRIGRAMS))
    if large:
        most = DOCUMENT_BYTES_MAX >> 20
        yield f"note: {_files(large)} too large to search; include them, up to {most} MiB, with --large-file GLOB"


def format_limits(answer: "SearchResult", options: "Options", *, has_lines: bool) -> Iterator[str]:
    """The limits that were reached and the option that raises each; `has_lines` if lines are shown."""
    from argosy.search.model import LimitHit

    stats, limits_hit = answer.stats, answer.limits_hit
    if LimitHit.INDEX_MATCHES in limits_hit:
        # A block in progress is finished, so there may be many more matches than the limit.
        found, most = stats.matches, options.index_match_limit
        yield f"note: stopped after {found:,} matches (limit {most:,} per path); raise it with --match-limit N"
    if LimitHit.WALL_TIME in limits_hit:
        yield f"note: stopped after {options.wall_time_s:g} s; raise the limit with --max-time SECONDS"
    if LimitHit.MATCHES_SHOWN in limits_hit:
        yield f"note: {options.matches_max:,} of {stats.matches:,} matches shown; raise the limit with --max-matches N"
    elif LimitHit.FILES_SHOWN in limits_hit:
        yield f"note: {len(answer.files):,} of {stats.files:,} files shown; raise the limit with --max-files N"
    clipped = sum(line.is_clipped for file in answer.files for line in file.lines)
    if clipped and has_lines:
        lines = "1 long line" if clipped == 1 else f"{clipped:,} long lines"
        yield f"note: {lines} truncated to {options.line_bytes_max:,} bytes"


def format_costs(answer: "SearchResult", loaded: LoadedPaths, found: IndexSummary) -> Iterator[str]:
    """The statistics for --stats."""
    rate = found.text_bytes / loaded.duration_s / 1e6 if loaded.duration_s else 0.0
    yield (
        f"indexed {_files(found.files)}, {_size(found.text_bytes)} of text, in {loaded.duration_s:.2f} s "
        f"({rate:.0f} MB/s), {_size(found.memory_bytes)} of memory"
    )
    if found.skipped:
        reasons = ", ".join(f"{count:,} {reason.value}" for reason, count in found.skipped.most_common())
        yield f"by name only: {reasons}"
    stats = answer.stats
    yield (
        f"found {_matches(stats.matches)} in {_files(stats.files)}; read {_size(stats.content_bytes)} in "
        f"{stats.files_loaded:,} of {stats.files_considered:,} candidates, {stats.duration_s * 1000:.1f} ms"
    )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def _matches(count: int) -> str:
    return "1 match" if count == 1 else f"{count:,} matches"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
