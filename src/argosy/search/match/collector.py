"""Collects the results of a search: best files, statistics, limits hit."""

from argosy.search.match.file_matches import file_matches
from argosy.search.match.limits import Budget
from argosy.search.match.top_k import Hit, TopK
from argosy.search.model import FileMatch, Form, LimitHit, Options, SearchResult, Stats

UNBOUNDED = 1 << 62  # more matches than any index has


class Collector:
    """The best files, and sums over all files."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.top_k = TopK(options.files_max)
        self.limits_hit: set[LimitHit] = set()
        self.matches = self.files = self.content_bytes = 0
        self.files_considered = self.files_loaded = self.regexps_considered = 0
        self.ngram_lookups = self.index_bytes = 0
        self.searched: set[int] = set()  # numbers of the indexes searched, fully or partly
        self.skipped: set[int] = set()  # indexes of which a part was not searched
        self.found: set[int] = set()  # indexes with a matching file
        self.indexes_filtered = 0  # also searched: their postings have no candidates
        self.indexes_excluded = 0

    def record_lookup(self, ngrams: int, index_bytes: int) -> None:
        self.ngram_lookups += ngrams
        self.index_bytes += index_bytes

    def merge(self, other: "Collector") -> None:
        self.top_k.merge(other.top_k)
        self.limits_hit |= other.limits_hit
        self.matches += other.matches
        self.files += other.files
        self.content_bytes += other.content_bytes
        self.files_considered += other.files_considered
        self.files_loaded += other.files_loaded
        self.regexps_considered += other.regexps_considered
        self.record_lookup(other.ngram_lookups, other.index_bytes)
        self.searched |= other.searched
        self.found |= other.found
        self.skipped |= other.skipped
        self.indexes_filtered += other.indexes_filtered
        self.indexes_excluded += other.indexes_excluded

    def result(self, began: float, budget: Budget, wait_s: float = 0.0) -> SearchResult:
        """The result. A limit on shown files or matches is reported as any other limit."""
        limits_hit = set(self.limits_hit)
        files = self._files(limits_hit, budget) if self._options.form is not Form.COUNT else ()
        stats = Stats(
            files=self.files,
            matches=self.matches,
            files_considered=self.files_considered,
            files_loaded=self.files_loaded,
            # An estimate reads no file, which is no reason to call them skipped.
            files_skipped=self.files_considered - self.files_loaded if not self._options.estimate_only else 0,
            content_bytes=self.content_bytes,
            indexes_searched=len(self.searched) + self.indexes_filtered,
            # An index has several parts; if one of them was searched, it counts as searched.
            indexes_skipped=len(self.skipped - self.searched),
            indexes_excluded=self.indexes_excluded,
            index_bytes=self.index_bytes,
            regexps_considered=self.regexps_considered,
            ngram_lookups=self.ngram_lookups,
            duration_s=budget.now() - began,
            wait_s=wait_s,
        )
        return SearchResult(files, stats, tuple(sorted(limits_hit, key=lambda each: each.value)))

    def _files(self, limits_hit: set[LimitHit], budget: Budget) -> tuple[FileMatch, ...]:
        best = self.top_k.best()
        # More files match than the best ones that were remembered.
        if len(best) < self.files:
            limits_hit.add(LimitHit.FILES_SHOWN)
        chosen = self._select(best)
        if len(chosen) < len(best) or any(shown < hit.match_count for hit, shown in chosen):
            limits_hit.add(LimitHit.MATCHES_SHOWN)
        files: list[FileMatch] = []
        matches = file_matches(chosen, self._options)
        # One at a time, because converting a file with a hundred thousand matches takes long enough to check for
        # cancellation.
        while len(files) < len(chosen):
            if budget.is_cancelled():  # not `is_spent`: after a timeout the files found are still shown
                limits_hit.add(LimitHit.CANCELLED)
                break
            files.append(next(matches))
        return tuple(files)

    def _select(self, best: list[Hit]) -> list[tuple[Hit, int]]:
        """The files to show, and the number of matches of each."""
        of_one = self._options.file_matches_max or UNBOUNDED
        left = self._options.matches_max or UNBOUNDED
        chosen = []
        for hit in best:
            if left <= 0:
                break
            shown = min(hit.match_count, of_one, left)
            chosen.append((hit, shown))
            left -= shown
        return chosen
