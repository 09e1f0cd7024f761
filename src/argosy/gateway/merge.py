"""Merges the results of many nodes into one, ranked as a single index set of all repositories would rank it.

Results cover disjoint sets of repositories. The order is by score; then by repository rank; then by repository name;
then by position in the index. Every node returns at least what would be shown of its repositories if there were no
others, so cutting the merged list to the limits loses nothing. Matches may arrive encoded; files are ranked without
decoding, and only the files that are shown are decoded.
"""

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter

from msgspec import structs

from argosy.search.fleet.model import ListResult
from argosy.search.model import (
    Chunk,
    FileMatch,
    Form,
    LimitHit,
    Line,
    Missing,
    Options,
    Range,
    SearchResult,
    Stats,
    decode_matches,
)


def merge_results(
    answers: Sequence[SearchResult], options: Options, *, missing: Iterable[Missing] = (), excluded: int = 0
) -> SearchResult:
    """`excluded`: the number of repositories that the query excludes by name; they count in the statistics."""
    stats = sum_stats([answer.stats for answer in answers], excluded=excluded)
    # Not MATCHES_SHOWN: it concerns what a node would have shown alone, and is decided below for the merged result.
    limits_hit = {each for answer in answers for each in answer.limits_hit} - {LimitHit.MATCHES_SHOWN}
    files: tuple[FileMatch, ...] = ()
    if options.form is not Form.COUNT:
        if 0 < options.files_max < stats.files:
            limits_hit.add(LimitHit.FILES_SHOWN)
        files = _apply_match_limits(_rank(answers, options.files_max), stats.files, options, limits_hit)
    repositories = {name: known for answer in answers for name, known in answer.repositories.items()}
    shown = {file.repository for file in files}
    return SearchResult(
        files=files,
        stats=stats,
        # Sorted, so that the result does not depend on the order in which nodes respond.
        limits_hit=tuple(sorted(limits_hit, key=lambda each: each.value)),
        missing=tuple(sorted(missing, key=lambda each: each.repository)),
        repositories={name: known for name, known in repositories.items() if name in shown},
    )


def select_repositories(answer: SearchResult, names: Collection[str]) -> SearchResult:
    """The part of a result about these repositories. The statistics stay those of the whole result: they cannot be
    split.
    """
    files = tuple(decode_matches(file) for file in answer.files if file.repository in names)
    repositories = {name: known for name, known in answer.repositories.items() if name in names}
    return structs.replace(answer, files=files, repositories=repositories)


def merge_listings(listings: Iterable[ListResult], missing: Iterable[Missing]) -> ListResult:
    entries = sorted((e for listing in listings for e in listing.entries), key=lambda entry: entry.repository.name)
    return ListResult(tuple(entries), tuple(sorted(missing, key=lambda each: each.repository)))


def sum_stats(parts: Sequence[Stats], *, excluded: int = 0) -> Stats:
    """Add up statistics. Durations are the maximum, because nodes work concurrently."""
    if len(parts) == 1 and not excluded:
        return parts[0]
    sums: dict[str, int] = dict.fromkeys(_SUMS, 0)
    if parts:
        sums = dict(zip(_SUMS, map(sum, zip(*map(_summands, parts), strict=True)), strict=True))
    sums["indexes_excluded"] += excluded
    return Stats(
        **sums,
        duration_s=max((part.duration_s for part in parts), default=0.0),
        wait_s=max((part.wait_s for part in parts), default=0.0),
    )


# Durations are no sums: nodes work at the same time.
_SUMS = tuple(name for name in Stats.__struct_fields__ if name not in ("duration_s", "wait_s"))
_summands = attrgetter(*_SUMS)


def _rank(answers: Sequence[SearchResult], files_max: int) -> list[FileMatch]:
    files = [file for answer in answers for file in answer.files]
    if len(answers) > 1:
        # The sort is stable, and the files of one repository come from one result, so their order within it remains.
        files.sort(key=lambda file: (-file.score, -file.repository_rank, file.repository))
    return files[:files_max] if files_max else files


def _apply_match_limits(
    files: list[FileMatch], found: int, options: Options, limits_hit: set[LimitHit]
) -> tuple[FileMatch, ...]:
    """Apply the limits on matches, in total and per file; `found` is the number of files that matched on all nodes."""
    if not options.matches_max:
        if options.file_matches_max and any(file.match_count > options.file_matches_max for file in files):
            limits_hit.add(LimitHit.MATCHES_SHOWN)
        return tuple(map(decode_matches, files))
    trimmed: list[FileMatch] = []
    left = options.matches_max
    for file in files:
        if left <= 0:
            break
        of_file = min(file.match_count, options.file_matches_max or file.match_count)
        shown = decode_matches(file)
        if of_file > left:
            shown = trim_file(shown, left, of=of_file, context_lines=options.context_lines)
        trimmed.append(shown)
        if min(of_file, left) < file.match_count:
            limits_hit.add(LimitHit.MATCHES_SHOWN)
        left -= of_file
    # A node that reached the limit sent no further files; the count of matching files tells whether there are more.
    if len(trimmed) < min(found, options.files_max or found):
        limits_hit.add(LimitHit.MATCHES_SHOWN)
    return tuple(trimmed)


# -- trimming a file to fewer matches ----------------------------------------------------------------------------------


def trim_file(file: FileMatch, matches: int, *, of: int, context_lines: int) -> FileMatch:
    """Trim a file to its first `matches` (at least one) of the `of` matches that its node may have shown."""
    # More fragments than matches means that some matches span lines and have a fragment in each.
    has_pieces = sum(len(line.fragments) for line in file.lines) > of
    return structs.replace(
        file,
        chunks=_trim_chunks(file.chunks, matches, context_lines),
        lines=_trim_lines(file.lines, matches, has_pieces=has_pieces),
    )


def _trim_chunks(chunks: tuple[Chunk, ...], left: int, context_lines: int) -> tuple[Chunk, ...]:
    trimmed = []
    for chunk in chunks:
        if left <= 0:
            break
        trimmed.append(chunk if len(chunk.ranges) <= left else _trim_chunk(chunk, left, context_lines))
        left -= len(chunk.ranges)
    return tuple(trimmed)


def _trim_chunk(chunk: Chunk, matches: int, context_lines: int) -> Chunk:
    """Cut the chunk after the lines of its last match left. The scores of single matches are not known here, so if
    the best one is cut off, the first becomes the best."""
    ranges = chunk.ranges[:matches]
    symbols = chunk.symbols[:matches]
    content = chunk.content
    if not (chunk.is_clipped or chunk.is_file_name):
        lines = max(_last_line(each) for each in ranges) + context_lines - chunk.start.line + 1
        content = _first_lines(content, lines)
    is_best_left = any(each.start.line == chunk.best_line for each in ranges)
    return structs.replace(
        chunk,
        content=content,
        ranges=ranges,
        symbols=symbols if any(symbols) else (),
        best_line=chunk.best_line if is_best_left else ranges[0].start.line,
    )


def _first_lines(content: bytes, lines: int) -> bytes:
    """The first `lines` lines, where only a newline ends a line."""
    return b"\n".join(content.split(b"\n", lines)[:lines]) + (b"\n" if content.count(b"\n") >= lines else b"")


def _last_line(found: Range) -> int:
    """The last line in which the match has a byte."""
    ends_before = found.end.column == 1 and found.end.line > found.start.line
    return found.end.line - ends_before


def _trim_lines(lines: tuple[Line, ...], left: int, *, has_pieces: bool) -> tuple[Line, ...]:
    """Trim lines to `left` matches. A match over several lines has a fragment in each and counts once. Two matches
    that meet at a line end look the same as one, and count once if other matches span lines."""
    trimmed: list[Line] = []
    continues = False
    for line in lines:
        allowed = left + (has_pieces and continues and _is_next(trimmed[-1], line))
        if allowed <= 0:
            break
        fragments = line.fragments[:allowed]
        trimmed.append(line if len(fragments) == len(line.fragments) else structs.replace(line, fragments=fragments))
        left = allowed - len(fragments)
        last = line.fragments[-1]
        continues = last.offset + last.length >= line.end - 1 and len(fragments) == len(line.fragments)
    return tuple(trimmed)


def _is_next(above: Line, line: Line) -> bool:
    """Whether only newlines separate the end of one line from the first fragment of the other: a match has no
    fragment in an empty line."""
    return line.fragments[0].offset - above.end == line.number - above.number - 1
