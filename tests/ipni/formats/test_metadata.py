"""Metadata of retrieval protocols."""

import pytest

from argosy.base.errors import Invalid
from argosy.ipni.formats import advertisement, cid, metadata, varint
from tests.ipni.formats import samples

PIECE = cid.of(b"piece")


def test_simple_protocols_are_their_number() -> None:
    assert (metadata.bitswap().hex(), metadata.http().hex(), metadata.piece_http().hex()) == ("8012", "a012", "b012")
    assert metadata.protocols(metadata.bitswap()) == [("transport-bitswap", b"")]


def test_all_protocols_of_metadata_are_decoded() -> None:
    """The reference loses the third and later ones."""
    graphsync = metadata.graphsync(PIECE, is_verified=True, is_fast=False)
    unknown = varint.encode(0x0A00) + varint.encode_bytes(b"abc")
    joined = metadata.join(unknown, metadata.piece_http(), metadata.http(), graphsync, metadata.bitswap())
    assert metadata.protocols(joined) == [
        ("transport-bitswap", b""),
        ("transport-graphsync-filecoinv1", graphsync[2:]),
        ("transport-ipfs-gateway-http", b""),
        ("transport-filecoin-piece-http", b""),
        ("transport-0xa00", b"\x03abc"),
    ]


def test_graphsync_metadata_of_another_implementation_round_trips_byte_for_byte() -> None:
    extension = advertisement.decode(*samples.block(samples.EXTENDED)).extension
    assert extension is not None
    theirs = extension.peers[2].metadata
    assert [name for name, _ in metadata.protocols(theirs)] == ["transport-graphsync-filecoinv1"]
    begin = theirs.index(b"\x70\x12\x20") - 1
    piece = cid.decode(theirs[begin : begin + 36])
    assert sorted(metadata.graphsync(piece, is_verified=True, is_fast=True)) == sorted(theirs)


def test_the_zero_that_some_publishers_write_after_http_is_accepted() -> None:
    assert metadata.protocols(bytes.fromhex("a01200")) == [("transport-ipfs-gateway-http", b"")]
    assert metadata.protocols(b"") == []


@pytest.mark.parametrize("data", ["80", "8012008012", "9012", "9012ff", "0104"])
def test_ambiguous_metadata_is_rejected(data: str) -> None:
    with pytest.raises(Invalid):
        metadata.protocols(bytes.fromhex(data))
