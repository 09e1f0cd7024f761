"""Decides which files are indexed by name only, and why.

A skipped file is still found by name, with the reason. The limits are those of zoekt (2 MiB,
20,000 distinct trigrams, any NUL) with one difference: a file of one or two bytes is indexed. It holds no trigram, so
an index of trigrams alone could not find anything in it; ours falls back to looking, and an answer that leaves out a
file because it is small would be wrong.
"""

from dataclasses import dataclass, field

from argosy.base.errors import Invalid
from argosy.search.documents import DOCUMENT_BYTES_MAX, Entry, EntryKind, SkipReason
from argosy.search.globs import GlobList

SIZE_BYTES_MAX = 2 << 20  # what people write is smaller
TRIGRAMS_MAX = 20_000  # prose and code of 2 MiB stay far below; base64 and tables of numbers do not
BINARY_LOOK_BYTES = 8_000  # where git looks for a NUL, and where binaries have one


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits, and the globs of files that are let in over them (later wins, `!` takes back)."""

    size_bytes_max: int = SIZE_BYTES_MAX
    trigrams_max: int = TRIGRAMS_MAX
    large_files: tuple[str, ...] = ()
    _is_large_file: GlobList = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.size_bytes_max <= DOCUMENT_BYTES_MAX:
            raise Invalid(f"size_bytes_max must be 1 to {DOCUMENT_BYTES_MAX}, not {self.size_bytes_max}")
        if self.trigrams_max < 1:
            raise Invalid(f"trigrams_max must be at least 1, not {self.trigrams_max}")
        object.__setattr__(self, "_is_large_file", GlobList(self.large_files))

    def is_let_in(self, path: bytes) -> bool:
        """Whether the limits of size and trigrams do not bind this path."""
        return bool(self.large_files) and self._is_large_file(path)

    def trigram_limit(self, entry: Entry) -> int:
        """How many distinct trigrams the file may hold; 0 where they need not be counted.

        A text of n bytes holds at most n - 2, so most files pass uncounted.
        """
        needs_counting = entry.size_bytes - 2 > self.trigrams_max and not self.is_let_in(entry.path)
        return self.trigrams_max if needs_counting else 0


_BY_KIND = {EntryKind.SYMLINK: SkipReason.SYMLINK, EntryKind.SUBMODULE: SkipReason.SUBMODULE}


def reason_before_reading(entry: Entry, policy: Policy) -> SkipReason:
    """What can be told without the content, so that it need not be read."""
    if entry.kind is not EntryKind.FILE:
        return _BY_KIND[entry.kind]
    if entry.size_bytes <= policy.size_bytes_max:
        return SkipReason.NONE
    is_in = entry.size_bytes <= DOCUMENT_BYTES_MAX and policy.is_let_in(entry.path)
    return SkipReason.NONE if is_in else SkipReason.TOO_LARGE


def is_binary(content: bytes) -> bool:
    """Whether there is a NUL. The beginning is looked at first: most binaries are told by it without a full pass."""
    return 0 in content[:BINARY_LOOK_BYTES] or content.find(0, BINARY_LOOK_BYTES) >= 0


def reason_to_skip(entry: Entry, content: bytes, policy: Policy) -> SkipReason:
    """Why this file's content is not indexed; `content` may be its beginning only, where nothing more is at hand.

    Too many trigrams is for the builder to find, who counts them anyway: `Policy.trigram_limit` is the rule.
    """
    reason = reason_before_reading(entry, policy)
    if reason is SkipReason.NONE and is_binary(content):
        return SkipReason.BINARY
    return reason
