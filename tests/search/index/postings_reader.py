"""Slow and plain readers of a segment, for comparison."""

from argosy.search.index.index import Postings, Segment, Text, bitmap_length


def contents(text: Text) -> list[bytes]:
    return [
        text.data[start : end - 1].tobytes()
        for start, end in zip(text.starts[:-1].tolist(), text.starts[1:].tolist(), strict=True)
    ]


def paths(segment: Segment) -> list[bytes]:
    return contents(segment.names)


def blocks_with(postings: Postings, key: int, blocks: int) -> set[int]:
    """The blocks under a key."""
    if not int(postings.present[key // 64]) >> key % 64 & 1:
        return set()
    rank = int(postings.ranks[key // 64]) + (int(postings.present[key // 64]) & (1 << key % 64) - 1).bit_count()
    posting = postings.blocks[postings.offsets[rank] : postings.offsets[rank + 1]].tolist()
    if len(posting) < bitmap_length(blocks):
        assert posting == sorted(set(posting))
        return set(posting)
    return {16 * number + bit for number, word in enumerate(posting) for bit in range(16) if word >> bit & 1}
