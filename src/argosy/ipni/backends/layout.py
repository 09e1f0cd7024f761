"""Layout of the content index in column families (decision 27).

Values are interned: a multihash leads to a number, and the number to (provider, context, metadata). A number is never
reused, so a removal takes effect as soon as the row of the value is gone, and its entries can be freed later.

    family    key                                   value
    entries   place (32) ‖ number [‖ multihash]     empty
    seconds   second digest (7) ‖ place (6)         empty; only for double-hashed lookups
    inverse   number (5) ‖ sequence (7)             places (6 each), sorted: what was put under the number
    values    number (5)                            entries put, provider, context, metadata
    marks     see the functions below
    rows      the indexer's own rows

Because an entry is a key without a value, adding one needs no read, adding it again changes nothing, and the values of
a multihash are adjacent. The place of a sha2-256 is its digest; any other multihash is written out after the number.
Two multihashes may share the prefix of a place, so a lookup by prefix compares the rest.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from argosy.base.errors import Invalid
from argosy.ipni.formats import multihash as multihashes
from argosy.ipni.formats import varint
from argosy.ipni.formats.privacy import second_digest, value_key
from argosy.ipni.model import CONTEXT_BYTES_MAX, METADATA_BYTES_MAX, IndexValue


def check_value(value: IndexValue) -> None:
    if len(value.context) > CONTEXT_BYTES_MAX:
        raise Invalid(f"a context id has up to {CONTEXT_BYTES_MAX} bytes, not {len(value.context)}")
    if len(value.metadata) > METADATA_BYTES_MAX:
        raise Invalid(f"metadata has up to {METADATA_BYTES_MAX} bytes, not {len(value.metadata)}")


LAYOUT = 1  # version of this layout; a store with another one is not opened
PLACE_BYTES = 32
BEGIN_BYTES = 6  # of a place in inverse lists instead of 32: of a billion entries few share a prefix
SECOND_BYTES = 7  # of a second digest: candidates are hashed to be sure, so a collision costs time only
# A trillion values, numbered once each: they cannot run out. In an entry's key the number is a varint, usually shorter.
NUMBER_BYTES = 5
# RocksDB's sequence numbers have 56 bits.
SEQUENCE_BYTES = 7
# Nearly all multihashes of publishers are sha2-256; only these take the table path below.
USUAL = b"\x12\x20"  # multihash prefix of a whole sha2-256
USUAL_BYTES = 34
# Of any other digest in its place. The rest is filled with a hash, so that chosen digests cannot all have one place.
_DIGEST_BYTES = 24

Begins = NDArray[np.uint64]
Table = NDArray[np.uint8]

# Read before anything else: another version's rows would be misread without any error.
LAYOUT_KEY = b"layout"
NEXT_KEY = b"next"  # the first unused number


def place(multihash: bytes) -> bytes:
    """The prefix of the multihash's entries; raises Invalid if it is not a multihash."""
    if _is_usual(multihash):
        return multihash[2:]
    digest = multihashes.split(multihash)[1]
    return digest[:_DIGEST_BYTES].ljust(_DIGEST_BYTES, b"\0") + sha256(multihash).digest()[: 32 - _DIGEST_BYTES]


def entry_key(multihash: bytes, number: bytes) -> bytes:
    """The key of an entry; `number` is encoded as a varint."""
    return multihash[2:] + number if _is_usual(multihash) else place(multihash) + number + multihash


class IndexEntry(NamedTuple):
    number: int
    multihash: bytes


def entry(key: bytes) -> IndexEntry:
    number, end = varint.decode(key, PLACE_BYTES)
    return IndexEntry(number, key[end:] or USUAL + key[:PLACE_BYTES])


def second_key(multihash: bytes, begin: bytes) -> bytes:
    """The key of a second hash; `begin` is the multihash's place or a prefix of it."""
    return second_digest(multihash)[:SECOND_BYTES] + begin[:BEGIN_BYTES]


class MultihashSlice(NamedTuple):
    """Part of a put in the order of places, and its row of the inverse list.

    Multihashes of sha2-256 are rows of a numpy table, so that their keys are built all at once.
    """

    hashes: Table | list[bytes]
    begins: bytes

    def __bool__(self) -> bool:
        return len(self.hashes) > 0

    @property
    def multihashes(self) -> list[bytes]:
        return self.hashes if isinstance(self.hashes, list) else _rows(self.hashes)

    def keys(self, number: bytes) -> list[bytes]:
        if isinstance(self.hashes, list):
            return [entry_key(multihash, number) for multihash in self.hashes]
        table = np.empty((len(self.hashes), PLACE_BYTES + len(number)), np.uint8)
        table[:, :PLACE_BYTES] = self.hashes[:, len(USUAL) :]
        table[:, PLACE_BYTES:] = np.frombuffer(number, np.uint8)
        return _rows(table)


NOTHING = MultihashSlice([], b"")


def slices(hashes: Sequence[bytes], size_max: int) -> Iterator[MultihashSlice]:
    """Splits a put into sorted slices: RocksDB writes sorted keys faster, and inverse rows are read without sorting."""
    if not hashes:
        return
    # Either a numpy table for all or a list for all: a mixed put is rare, and two paths in one slice would cost both.
    table = _usual_table(hashes)
    # Sorting by eight bytes is enough: within one prefix the order only affects speed.
    begins = _begins(hashes) if table is None else _table_begins(table)
    order = np.argsort(begins)
    # Packed once and cut per slice: a numpy call costs more than the bytes of one slice.
    packed = _pack_begins(begins[order] >> np.uint64(64 - 8 * BEGIN_BYTES))
    for at in range(0, len(hashes), size_max):
        part = order[at : at + size_max]
        yield MultihashSlice(
            [hashes[each] for each in part.tolist()] if table is None else table[part],
            packed[at * BEGIN_BYTES : (at + size_max) * BEGIN_BYTES],
        )


def _usual_table(hashes: Sequence[bytes]) -> Table | None:
    """One row each; None if one of them is not a sha2-256."""
    # The lengths first, because most irregular puts differ there, and the table needs equal ones.
    if set(map(len, hashes)) != {USUAL_BYTES}:
        return None
    table = np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, USUAL_BYTES)
    if (table[:, : len(USUAL)] != np.frombuffer(USUAL, np.uint8)).any():
        return None
    return table


def _table_begins(table: Table) -> Begins:
    return np.ascontiguousarray(table[:, len(USUAL) : len(USUAL) + 8]).view(">u8").ravel().astype(np.uint64)


def _rows(table: Table) -> list[bytes]:
    rows: list[bytes] = np.ascontiguousarray(table).view(f"V{table.shape[1]}").ravel().tolist()
    return rows


def _begins(hashes: Sequence[bytes]) -> Begins:
    return np.frombuffer(b"".join(place(each)[:8] for each in hashes), ">u8").astype(np.uint64)


def _is_usual(multihash: bytes) -> bool:
    return len(multihash) == USUAL_BYTES and multihash.startswith(USUAL)


def _pack_begins(begins: Begins) -> bytes:
    return begins.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - BEGIN_BYTES :].tobytes()


def begins_of(row: bytes) -> Begins:
    """The prefixes of the places as numbers, in order."""
    wide = np.zeros((len(row) // BEGIN_BYTES, 8), np.uint8)
    wide[:, 8 - BEGIN_BYTES :] = np.frombuffer(row, np.uint8).reshape(-1, BEGIN_BYTES)
    return wide.view(">u8").ravel().astype(np.uint64)


def begin_bytes(begin: int) -> bytes:
    return begin.to_bytes(BEGIN_BYTES, "big")


def number_key(number: int) -> bytes:
    """A number as the first part of a key: big-endian, so that keys sort by number."""
    return number.to_bytes(NUMBER_BYTES, "big")


def inverse_key(number: int, sequence: int) -> bytes:
    return number_key(number) + sequence.to_bytes(SEQUENCE_BYTES, "big")


class ValueRow(NamedTuple):
    entries: int  # number of multihashes put; one that was put twice counts twice
    value: IndexValue


def value_row(entries: int, value: IndexValue) -> bytes:
    named = varint.encode_bytes(value.provider.encode()) + varint.encode_bytes(value.context)
    return varint.encode(entries) + named + value.metadata


def read_value(row: bytes) -> ValueRow:
    # Metadata comes last and without a length: it is the only field whose end is the end of the row.
    entries, at = varint.decode(row)
    provider, at = varint.decode_bytes(row, at)
    context, at = varint.decode_bytes(row, at)
    return ValueRow(entries, IndexValue(provider.decode(), context, row[at:]))


def value_key_hash(provider: str, context: bytes) -> bytes:
    """The key of a metadata lookup, which does not reveal the provider and the context."""
    return sha256(value_key(provider, context)).digest()


# -- marks ------------------------------------------------------------------------------------------------------------


def context_key(key_hash: bytes) -> bytes:
    """Maps to the newest number of the context."""
    return b"c" + key_hash


def provider_prefix(provider: str) -> bytes:
    """With a number appended, maps to the hash of the value key: all contexts of a provider."""
    return b"p" + varint.encode_bytes(provider.encode())


def sweep_key(number: int) -> bytes:
    """Maps to nothing: the number is dead and its entries wait for the sweep."""
    return b"d" + number_key(number)


def floor_key(provider: str) -> bytes:
    """Maps to a number: all contexts of the provider with a smaller number are removed. One row removes any number of
    contexts at once."""
    return b"f" + provider.encode()
