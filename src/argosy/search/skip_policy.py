"""Decides which files are indexed by name only, and why.

A skipped file is still found by name, with the reason. The limits are those of zoekt (2 MiB,
20,000 distinct trigrams, any NUL) with one difference: a file of one or two bytes is indexed. It has no trigram, so
trigrams alone cannot find it; short literals are searched by reading text, and a result without a file that matches
would be wrong.
"""

from dataclasses import dataclass, field

from argosy.base.errors import Invalid
from argosy.search.documents import DOCUMENT_BYTES_MAX, Entry, EntryKind, SkipReason
from argosy.search.globs import GlobList

SIZE_BYTES_MAX = 2 << 20  # hand-written files are smaller
TRIGRAMS_MAX = 20_000  # prose and code of 2 MiB stay far below; base64 and tables of numbers do not
BINARY_HEAD_BYTES = 8_000  # git searches as many for a NUL, and nearly all binaries have one there


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits, and the globs of files that are exempt from them (later ones win, `!` excludes again)."""

    size_bytes_max: int = SIZE_BYTES_MAX
    trigrams_max: int = TRIGRAMS_MAX
    large_files: tuple[str, ...] = ()
    # Compiled once; not compared, because it follows from `large_files`. The text of a policy is part of an index's
    # recipe.
    _is_large_file: GlobList = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.size_bytes_max <= DOCUMENT_BYTES_MAX:
            raise Invalid(f"size_bytes_max must be 1 to {DOCUMENT_BYTES_MAX}, not {self.size_bytes_max}")
        if self.trigrams_max < 1:
            raise Invalid(f"trigrams_max must be at least 1, not {self.trigrams_max}")
        object.__setattr__(self, "_is_large_file", GlobList(self.large_files))

    def is_exempt(self, path: bytes) -> bool:
        """Whether the limits of size and trigrams do not apply to this path."""
        return bool(self.large_files) and self._is_large_file(path)

    def trigram_limit(self, entry: Entry) -> int:
        """The limit of distinct trigrams of the file; 0 if they need not be counted.

        A text of n bytes has at most n - 2, so most files are not counted.
        """
        needs_counting = entry.size_bytes - 2 > self.trigrams_max and not self.is_exempt(entry.path)
        return self.trigrams_max if needs_counting else 0


_BY_KIND = {EntryKind.SYMLINK: SkipReason.SYMLINK, EntryKind.SUBMODULE: SkipReason.SUBMODULE}


def reason_before_reading(entry: Entry, policy: Policy) -> SkipReason:
    """The reason that is known without the content, so that it need not be read."""
    if entry.kind is not EntryKind.FILE:
        return _BY_KIND[entry.kind]
    if entry.size_bytes <= policy.size_bytes_max:
        return SkipReason.NONE
    # An exemption does not lift the hard limit: a larger file would not fit a segment.
    is_exempt = entry.size_bytes <= DOCUMENT_BYTES_MAX and policy.is_exempt(entry.path)
    return SkipReason.NONE if is_exempt else SkipReason.TOO_LARGE


def is_binary(content: bytes) -> bool:
    """Whether the content has a NUL. The beginning is searched first, because it decides for most binaries."""
    return 0 in content[:BINARY_HEAD_BYTES] or content.find(0, BINARY_HEAD_BYTES) >= 0


def reason_to_skip(entry: Entry, content: bytes, policy: Policy) -> SkipReason:
    """Why the content of this file is not indexed; `content` can be its beginning only.

    TOO_MANY_TRIGRAMS is not checked here but by the builder, with `Policy.trigram_limit`.
    """
    reason = reason_before_reading(entry, policy)
    if reason is SkipReason.NONE and is_binary(content):
        return SkipReason.BINARY
    return reason
