"""Builds the index of a repository.

Contents are streamed in index order directly into the current segment. So, whatever the size of the repository, a build
needs memory for the finished segments, plus the text of one segment and about as much scratch.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from argosy.search.arrays import freeze
from argosy.search.documents import Category, Content, Entry, Progress, SkipReason, Source
from argosy.search.index.incremental import DocumentRef, plan
from argosy.search.index.index import SEGMENT_TEXT_BYTES, Index, Part
from argosy.search.index.reader import content_of
from argosy.search.index.sections import part_with_checksum
from argosy.search.index.segment_builder import Document, SegmentBuilder
from argosy.search.kernels.trigrams import CLASSES, distinct_keys
from argosy.search.languages import category_of, category_of_path, language_of
from argosy.search.skip_policy import Policy, reason_before_reading, reason_to_skip
from argosy.search.symbols.extract import definitions

HEAD_BYTES = 4096  # language and category are detected from the beginning of a file, where shebang and markers are
PROGRESS_BYTES = 1 << 20  # interval of progress calls

# The bits are ordered: generated files rank lowest, then vendored files, then tests. Documentation and configuration
# are not demoted.
_DEMOTED = Category.GENERATED | Category.VENDORED | Category.TEST


@dataclass(frozen=True, slots=True)
class _Task:
    """An entry to index: copied from an old segment, or read from the source unless skipped."""

    entry: Entry
    place: DocumentRef | None
    reason: SkipReason

    @property
    def text_bytes(self) -> int:
        """The expected text size, which progress counts whether or not the entry is indexed in the end."""
        return 1 + (self.entry.size_bytes if self.reason is SkipReason.NONE else 0)  # with its NUL


def build(
    source: Source,
    policy: Policy,
    *,
    previous: Index | None = None,
    progress: Progress | None = None,
    with_symbols: bool = True,
) -> Index:
    """Builds the index of the current state of the repository.

    `previous` is an older index of the same repository: unchanged segments are shared with it if it has the same
    recipe. An exception from `progress` aborts the build.
    """
    # Any setting that changes what is indexed belongs in the recipe, or an incremental build would mix both.
    recipe = f"{policy} with_symbols={with_symbols}"
    usable = previous if previous is not None and previous.recipe == recipe else None
    steps = plan(source.entries(), usable, policy)
    tasks = [_Task(entry, place, reason_before_reading(entry, policy)) for entry, place in steps.rebuilt]
    tasks.sort(key=lambda task: rank(task.entry, is_skipped=task.reason is not SkipReason.NONE))
    parts = [part_with_checksum(segment, freeze(branches)) for segment, branches in steps.kept]
    # Closed when the build is aborted between two documents: a source can have a subprocess.
    with closing(_documents(source, tasks, policy, with_symbols=with_symbols)) as documents:
        parts += _parts(documents, sum(task.text_bytes for task in tasks), progress)
    return Index(source.repository, tuple(parts), recipe)


def _documents(
    source: Source, tasks: Sequence[_Task], policy: Policy, *, with_symbols: bool
) -> Generator[tuple[_Task, Document], None, None]:
    """The document of each task, read or copied."""
    wanted = [task.entry for task in tasks if task.place is None and task.reason is SkipReason.NONE]
    # One call for all files, in the order of the tasks: sources read through one long-lived process or one traversal.
    contents = source.read(wanted)
    try:
        for task in tasks:
            content: Content | None = task.reason
            if task.place is not None:
                content = content_of(task.place.segment, task.place.document)
            elif task.reason is SkipReason.NONE:
                # The order of `wanted` is that of the tasks, so each task takes exactly its own content.
                content = next(contents, None)
            assert content is not None, "a source yields a content for every entry"
            yield task, _document(task.entry, content, policy, with_symbols=with_symbols)
    finally:
        if isinstance(contents, Generator):
            contents.close()  # it can have a subprocess


def _document(entry: Entry, content: Content, policy: Policy, *, with_symbols: bool) -> Document:
    if isinstance(content, bytes):
        content = _apply_skip_policy(entry, content, policy)
    text, skip = (content, SkipReason.NONE) if isinstance(content, bytes) else (b"", content)
    head = text[:HEAD_BYTES]
    language = language_of(entry.path, head)
    return Document(
        path=entry.path,
        content=text,
        blob_id=entry.blob_id,
        language=language,
        category=category_of(entry.path, head),
        skip=skip,
        definitions=definitions(language, text) if with_symbols and text else (),
    )


def _apply_skip_policy(entry: Entry, content: bytes, policy: Policy) -> Content:
    """The content, or the reason to skip it. A file on disk can have grown since it was listed."""
    # The limits apply to what was read, not to what was listed.
    entry = entry if entry.size_bytes == len(content) else replace(entry, size_bytes=len(content))
    reason = reason_to_skip(entry, content, policy)
    if reason is not SkipReason.NONE:
        return reason
    limit = policy.trigram_limit(entry)
    if limit and distinct_keys(np.frombuffer(content, np.uint8), CLASSES) > limit:
        return SkipReason.TOO_MANY_TRIGRAMS
    return content


def _parts(documents: Iterator[tuple[_Task, Document]], total_bytes: int, progress: Progress | None) -> Iterator[Part]:
    """Distributes the documents over as few segments as possible, of about equal size."""
    # Equal shares rather than full segments and a small rest: threads share the segments of a search.
    shares = total_bytes // SEGMENT_TEXT_BYTES + 1
    share_bytes = total_bytes // shares + 1
    builder = SegmentBuilder(expected_bytes=share_bytes)
    branches: list[int] = []
    done_bytes = reported_bytes = 0
    for task, document in documents:
        # A full segment is finished early even so: `total_bytes` is only the expected size.
        has_share = shares > 1 and builder.text_bytes >= share_bytes  # the last segment takes the rest
        if branches and (has_share or not builder.fits(document.path, len(document.content))):
            yield part_with_checksum(builder.finish(), freeze(np.array(branches, np.uint64)))
            builder, branches, shares = SegmentBuilder(expected_bytes=share_bytes), [], shares - 1
        builder.add(document)
        branches.append(task.entry.branches)
        done_bytes += task.text_bytes
        if progress and done_bytes >= reported_bytes + PROGRESS_BYTES:
            reported_bytes = done_bytes
            progress(min(done_bytes, total_bytes), total_bytes)
    if branches:
        yield part_with_checksum(builder.finish(), freeze(np.array(branches, np.uint64)))
    if progress:
        progress(total_bytes, total_bytes)


def rank(entry: Entry, *, is_skipped: bool) -> tuple[bool, int, int, int, int, bytes, bytes]:
    """The sort key of a document, best first; files without indexed content come last.

    A search that hits its limits has read the first documents, and of equal scores the earlier document wins. So files
    written for this repository come before its tests, vendored and generated files, and short paths before long ones.
    The key uses only the path and the listing, so that the order is known before anything is read.
    """
    return (
        is_skipped,
        int(category_of_path(entry.path)) & int(_DEMOTED),
        len(entry.path),
        entry.size_bytes,
        -entry.branches.bit_count(),
        entry.path,
        entry.blob_id,
    )
