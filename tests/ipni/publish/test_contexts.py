"""Human-readable labels in the metadata."""

import pytest

from argosy.ipni.formats import metadata
from argosy.ipni.formats.metadata import Label, decode_label, encode_label
from argosy.ipni.model import METADATA_BYTES_MAX


@pytest.mark.parametrize("label", [Label("github.com/a/b", "0123abcd"), Label("späte Fähre"), Label("")])
def test_a_label_is_decoded_among_other_protocols(label: Label) -> None:
    encoded = metadata.join(encode_label(label), metadata.http(), metadata.bitswap())
    assert decode_label(encoded) == label
    assert [name for name, _ in metadata.protocols(encoded)] == [
        "transport-bitswap",
        "transport-ipfs-gateway-http",
        "transport-0x3a7605",
    ]


def test_a_label_fits_whatever_it_names() -> None:
    encoded = metadata.join(metadata.http(), encode_label(Label("ä" * 2000 + "\udcff", "v" * 2000)))
    assert len(encoded) <= METADATA_BYTES_MAX
    found = decode_label(encoded)
    assert found is not None
    assert (set(found.name), set(found.version)) == ({"ä"}, {"v"})


LABEL = b"\x85\xec\xe9\x01"


@pytest.mark.parametrize("other", [b"", b"\xff", metadata.http(), LABEL + b"\x01\xa0", LABEL + b"\x02\xff\xff", LABEL])
def test_metadata_without_a_label_decodes_as_none(other: bytes) -> None:
    assert decode_label(other) is None
