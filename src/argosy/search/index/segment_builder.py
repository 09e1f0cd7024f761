"""Documents joined into a segment.

An assembly takes documents best first, copies each content into the segment's text at once, so that the caller need not
keep it, and makes the arrays when it is full. What it holds besides is one small row per document.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.search.documents import Category, Definition, SkipReason
from argosy.search.index.checksums import sealed
from argosy.search.index.marks import Marks
from argosy.search.index.postings import postings_of
from argosy.search.index.segment import SEGMENT_BLOCKS_MAX, SEGMENT_TEXT_BYTES, U8, DocTable, Segment, Text, frozen
from argosy.search.index.text_blocks import blocks_at_most, names_of, text_of, traits_of

_SKIPS: Mapping[SkipReason, int] = {reason: number for number, reason in enumerate(SkipReason)}


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it is indexed. With a reason to skip it, it has no content."""

    path: bytes
    content: bytes = b""
    blob_id: bytes = b""
    language: str = ""
    category: Category = Category.CODE
    skip: SkipReason = SkipReason.NONE
    definitions: Sequence[Definition] = ()


class Assembly:
    """A segment in the making. `expected_bytes` is how much text will come, as far as is known."""

    def __init__(self, *, expected_bytes: int = SEGMENT_TEXT_BYTES) -> None:
        # Untouched pages of an empty array take no memory.
        self._data: U8 = np.empty(max(1, min(expected_bytes, SEGMENT_TEXT_BYTES)), np.uint8)
        self._starts = [0]
        self._blocks = 0  # at most
        self._names: list[bytes] = []
        self._names_bytes = 0
        self._blob_ids: list[bytes] = []
        self._languages: dict[str, int] = {}
        self._rows: list[tuple[int, int, int]] = []
        self._marks = Marks()

    @property
    def documents(self) -> int:
        return len(self._names)

    @property
    def text_bytes(self) -> int:
        return self._starts[-1]

    def has_room(self, path: bytes, content_bytes: int) -> bool:
        """Whether a document fits. The first one always does: it may be larger than a segment should be."""
        return not self._names or (
            self.text_bytes + content_bytes < SEGMENT_TEXT_BYTES
            and self._names_bytes + len(path) < SEGMENT_TEXT_BYTES
            and self._blocks + blocks_at_most(content_bytes) <= SEGMENT_BLOCKS_MAX
        )

    def add(self, document: Document) -> None:
        """The next best document; the caller has asked whether it has room."""
        content = document.content
        start = self.text_bytes
        end = start + len(content)
        if end + 1 > len(self._data):
            self._data.resize(max(end + 1, len(self._data) * 3 // 2), refcheck=False)
        self._data[start:end] = np.frombuffer(content, np.uint8)
        self._data[end] = 0
        self._starts.append(end + 1)
        self._blocks += blocks_at_most(len(content))
        self._names.append(document.path)
        self._names_bytes += len(document.path) + 1
        self._blob_ids.append(document.blob_id)
        language = self._languages.setdefault(document.language, len(self._languages))
        self._rows.append((language, int(document.category), _SKIPS[document.skip]))
        if document.definitions:
            self._marks.add(
                document.definitions, start, language=document.language, path=document.path, content=content
            )

    def finish(self) -> Segment:
        """The segment. The assembly has given its text away and is of no further use."""
        data, self._data = self._data, np.empty(0, np.uint8)
        data.resize(self.text_bytes, refcheck=False)  # in place: the rest goes back to the system
        assert self._blocks <= SEGMENT_BLOCKS_MAX, "a document was added that had no room"
        content, names = text_of(data, np.array(self._starts, np.uint32)), names_of(self._names)
        return sealed(
            Segment(
                content=content,
                postings=postings_of(content, names),
                names=names,
                symbols=self._marks.finish(),
                table=self._table(content, names),
                languages=tuple(self._languages),
            )
        )

    def _table(self, content: Text, names: Text) -> DocTable:
        rows = np.array(self._rows, np.uint16).reshape(-1, 3)
        width = max(map(len, self._blob_ids), default=0)
        ids = b"".join(blob_id.ljust(width, b"\0") for blob_id in self._blob_ids)
        return DocTable(
            languages=frozen(rows[:, 0].copy()),
            categories=frozen(rows[:, 1].astype(np.uint8)),
            skips=frozen(rows[:, 2].astype(np.uint8)),
            traits=frozen(traits_of(content, names)),
            blob_ids=frozen(np.frombuffer(ids, np.uint8).reshape(len(rows), width).copy()),
        )


def build_segment(documents: Iterable[Document]) -> Segment:
    """A segment of documents that are known to fit one, in the order given."""
    assembly = Assembly(expected_bytes=0)
    for document in documents:
        assembly.add(document)
    return assembly.finish()
