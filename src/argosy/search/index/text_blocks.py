"""Joined documents as a Text: content with its blocks, names with one block each."""

from collections.abc import Sequence

import numpy as np

from argosy.search.index.segment import BLOCK_BYTES, U8, U32, Text, Trait, frozen
from argosy.search.kernels.blocks import cut_blocks
from argosy.search.kernels.traits import mark_traits


def blocks_at_most(content_bytes: int) -> int:
    """A bound on the blocks of one document, known before it is cut."""
    return content_bytes // BLOCK_BYTES + 1


def text_of(data: U8, starts: U32) -> Text:
    """Documents that are joined already, each followed by one NUL, cut into blocks."""
    data, starts = frozen(data), frozen(starts)
    contents = np.diff(starts.astype(np.int64)) - 1
    room = int((contents // BLOCK_BYTES).sum()) + len(contents)
    block_starts, block_docs, block_lines = (np.empty(room + 1, np.uint32) for _ in range(3))
    blocks = cut_blocks(data, starts, BLOCK_BYTES, block_starts, block_docs, block_lines)
    return Text(
        data=data,
        starts=starts,
        block_starts=frozen(block_starts[: blocks + 1].copy()),
        block_docs=frozen(block_docs[:blocks].copy()),
        block_lines=frozen(block_lines[:blocks].copy()),
    )


def names_of(paths: Sequence[bytes]) -> Text:
    """Paths as documents of one block each, however long."""
    data = frozen(np.frombuffer(b"".join(path + b"\0" for path in paths), np.uint8).copy())
    lengths = np.fromiter((len(path) + 1 for path in paths), np.int64, len(paths))
    starts = frozen(np.concatenate(([0], np.cumsum(lengths))).astype(np.uint32))
    return Text(
        data=data,
        starts=starts,
        block_starts=starts,
        block_docs=frozen(np.arange(len(paths), dtype=np.uint32)),
        block_lines=frozen(np.zeros(len(paths), np.uint32)),
    )


def traits_of(text: Text, names: Text) -> U8:
    """Per document, what makes it need more care (Trait)."""
    traits = np.zeros(text.documents, np.uint8)
    mark_traits(names.data, names.starts, traits)
    traits[:] = np.where(traits, Trait.ODD_NAME, 0)
    broken = np.flatnonzero(names.data == ord("\n"))
    traits[np.searchsorted(names.starts, broken, "right") - 1] |= Trait.ODD_NAME
    mark_traits(text.data, text.starts, traits)
    inner = np.flatnonzero(text.block_docs[1:] == text.block_docs[:-1])  # the document goes on after these
    is_cut = text.data[text.block_starts[inner + 1] - 1] != ord("\n")
    traits[text.block_docs[inner[is_cut]]] |= Trait.CUT_LINE
    return traits
