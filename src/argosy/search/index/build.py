"""From a repository to its index.

Contents are read as a stream in the order of the index and go straight into the segment in the making, so a build holds
one segment's text and its scratch (about as much again) besides the finished segments, however large the repository.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from argosy.search.documents import Content, Entry, Progress, SkipReason, Source
from argosy.search.index.checksums import sealed_part
from argosy.search.index.incremental import Place, plan
from argosy.search.index.index import Index, Part
from argosy.search.index.ordering import rank
from argosy.search.index.reader import content_of
from argosy.search.index.segment import SEGMENT_TEXT_BYTES, frozen
from argosy.search.index.segment_builder import Assembly, Document
from argosy.search.kernels.classes import CLASSES
from argosy.search.kernels.counting import distinct_keys
from argosy.search.languages import category_of, language_of
from argosy.search.skip_policy import Policy, reason_before_reading, reason_to_skip
from argosy.search.symbols.extract import definitions

HEAD_BYTES = 4096  # what a file is shows in its first lines
PROGRESS_BYTES = 1 << 20  # progress is told this often


@dataclass(frozen=True, slots=True)
class _Task:
    """An entry to build: recalled from an old segment, or read unless there is a reason not to."""

    entry: Entry
    place: Place | None
    reason: SkipReason

    @property
    def text_bytes(self) -> int:
        """What is to be read, for all one knows beforehand: progress counts these, indexed in the end or not."""
        return 1 + (self.entry.size_bytes if self.reason is SkipReason.NONE else 0)  # with its NUL


def build(
    source: Source,
    policy: Policy,
    *,
    previous: Index | None = None,
    progress: Progress | None = None,
    with_symbols: bool = True,
) -> Index:
    """The index of the repository as it is now.

    `previous` is an index of the same repository: what has not changed since is shared with it, if it was made by the
    same recipe. An exception from `progress` ends the build.
    """
    recipe = f"{policy} with_symbols={with_symbols}"
    usable = previous if previous is not None and previous.recipe == recipe else None
    steps = plan(source.entries(), usable, policy)
    tasks = [_Task(entry, place, reason_before_reading(entry, policy)) for entry, place in steps.rebuilt]
    tasks.sort(key=lambda task: rank(task.entry, is_skipped=task.reason is not SkipReason.NONE))
    parts = [sealed_part(segment, frozen(branches)) for segment, branches in steps.kept]
    with closing(_documents(source, tasks, policy, with_symbols=with_symbols)) as documents:
        parts += _parts(documents, sum(task.text_bytes for task in tasks), progress)
    return Index(source.repository, tuple(parts), recipe)


def _documents(
    source: Source, tasks: Sequence[_Task], policy: Policy, *, with_symbols: bool
) -> Generator[tuple[_Task, Document], None, None]:
    """Each task's document, read or recalled."""
    wanted = [task.entry for task in tasks if task.place is None and task.reason is SkipReason.NONE]
    contents = source.read(wanted)
    try:
        for task in tasks:
            content: Content | None = task.reason
            if task.place is not None:
                content = content_of(task.place.segment, task.place.document)
            elif task.reason is SkipReason.NONE:
                content = next(contents, None)
            assert content is not None, "a source answers every entry it is asked for"
            yield task, _document(task.entry, content, policy, with_symbols=with_symbols)
    finally:
        if isinstance(contents, Generator):
            contents.close()  # a process may stand behind it


def _document(entry: Entry, content: Content, policy: Policy, *, with_symbols: bool) -> Document:
    if isinstance(content, bytes):
        content = _checked(entry, content, policy)
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


def _checked(entry: Entry, content: bytes, policy: Policy) -> Content:
    """The content, or why it is not indexed. A file on disk may have grown since it was listed."""
    entry = entry if entry.size_bytes == len(content) else replace(entry, size_bytes=len(content))
    reason = reason_to_skip(entry, content, policy)
    if reason is not SkipReason.NONE:
        return reason
    limit = policy.trigram_limit(entry)
    if limit and distinct_keys(np.frombuffer(content, np.uint8), CLASSES) > limit:
        return SkipReason.TOO_MANY_TRIGRAMS
    return content


def _parts(documents: Iterator[tuple[_Task, Document]], total_bytes: int, progress: Progress | None) -> Iterator[Part]:
    """The documents in as few segments as they fit, of about the same size."""
    shares = total_bytes // SEGMENT_TEXT_BYTES + 1
    share_bytes = total_bytes // shares + 1
    assembly = Assembly(expected_bytes=share_bytes)
    branches: list[int] = []
    done_bytes = told_bytes = 0
    for task, document in documents:
        has_share = shares > 1 and assembly.text_bytes >= share_bytes  # the last one takes what is left
        if branches and (has_share or not assembly.has_room(document.path, len(document.content))):
            yield sealed_part(assembly.finish(), frozen(np.array(branches, np.uint64)))
            assembly, branches, shares = Assembly(expected_bytes=share_bytes), [], shares - 1
        assembly.add(document)
        branches.append(task.entry.branches)
        done_bytes += task.text_bytes
        if progress and done_bytes >= told_bytes + PROGRESS_BYTES:
            told_bytes = done_bytes
            progress(min(done_bytes, total_bytes), total_bytes)
    if branches:
        yield sealed_part(assembly.finish(), frozen(np.array(branches, np.uint64)))
    if progress:
        progress(total_bytes, total_bytes)
