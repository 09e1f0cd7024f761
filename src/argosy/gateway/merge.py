"""Many answers become one, ranked as a single shelf with all indexes would have ranked it.

Answers are of disjoint sets of repositories. A shelf puts the higher score first; of equal scores the repository with
the higher rank, then the one whose name comes first, then what its index has first. Every node sends at least what
would be shown of its repositories if there were no others, so nothing is lost by cutting the whole to its bounds here.
Files may come sealed; they are ranked as they are, and opened once it is known which are shown.
"""

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter

from msgspec import structs

from argosy.gateway.trimming import trim_file
from argosy.search.encoded_matches import opened
from argosy.search.fleet.model import ListResult
from argosy.search.model import FileMatch, Form, LimitHit, Missing, Options, SearchResult, Stats


def merge_results(
    answers: Sequence[SearchResult], options: Options, *, missing: Iterable[Missing] = (), excluded: int = 0
) -> SearchResult:
    """`excluded`: repositories that were not asked for because the query rules them out."""
    stats = sum_stats([answer.stats for answer in answers], excluded=excluded)
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
        limits_hit=tuple(sorted(limits_hit, key=lambda each: each.value)),
        missing=tuple(sorted(missing, key=lambda each: each.repository)),
        repositories={name: known for name, known in repositories.items() if name in shown},
    )


def select_repositories(answer: SearchResult, names: Collection[str]) -> SearchResult:
    """What an answer says of these repositories alone, to look at; what it cost is told for all of them."""
    files = tuple(opened(file) for file in answer.files if file.repository in names)
    repositories = {name: known for name, known in answer.repositories.items() if name in names}
    return structs.replace(answer, files=files, repositories=repositories)


def merge_listings(listings: Iterable[ListResult], missing: Iterable[Missing]) -> ListResult:
    entries = sorted((e for listing in listings for e in listing.entries), key=lambda entry: entry.repository.name)
    return ListResult(tuple(entries), tuple(sorted(missing, key=lambda each: each.repository)))


def sum_stats(parts: Sequence[Stats], *, excluded: int = 0) -> Stats:
    """Nodes work at the same time, so their durations do not add up."""
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


_SUMS = tuple(name for name in Stats.__struct_fields__ if name not in ("duration_s", "wait_s"))
_summands = attrgetter(*_SUMS)


def _rank(answers: Sequence[SearchResult], files_max: int) -> list[FileMatch]:
    files = [file for answer in answers for file in answer.files]
    if len(answers) > 1:
        # The sort is stable, and the files of one repository come from one answer: their order is kept.
        files.sort(key=lambda file: (-file.score, -file.repository_rank, file.repository))
    return files[:files_max] if files_max else files


def _apply_match_limits(
    files: list[FileMatch], found: int, options: Options, limits_hit: set[LimitHit]
) -> tuple[FileMatch, ...]:
    """The files with as many of their matches as may be shown; `found` files matched in all."""
    if not options.matches_max:
        if options.file_matches_max and any(file.match_count > options.file_matches_max for file in files):
            limits_hit.add(LimitHit.MATCHES_SHOWN)
        return tuple(map(opened, files))
    kept: list[FileMatch] = []
    left = options.matches_max
    for file in files:
        if left <= 0:
            break
        of_file = min(file.match_count, options.file_matches_max or file.match_count)
        shown = opened(file)
        if of_file > left:
            shown = trim_file(shown, left, of=of_file, context_lines=options.context_lines)
        kept.append(shown)
        if min(of_file, left) < file.match_count:
            limits_hit.add(LimitHit.MATCHES_SHOWN)
        left -= of_file
    # A node that met the bound sent no further files, so the number that matched tells whether there are any.
    if len(kept) < min(found, options.files_max or found):
        limits_hit.add(LimitHit.MATCHES_SHOWN)
    return tuple(kept)
