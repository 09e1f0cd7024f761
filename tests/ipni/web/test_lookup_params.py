"""Parameters of a find."""

import pytest

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, multihash
from argosy.ipni.formats.bases import base58
from argosy.ipni.web.lookup_params import (
    NotAcceptable,
    ResponseFormat,
    form_of,
    multihash_of_cid,
    multihash_of_text,
    second_hash,
)
from tests.ipni.web.builders import CONTENT


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (b"", ResponseFormat.JSON),
        (b"*/*", ResponseFormat.JSON),
        (b"application/json", ResponseFormat.JSON),
        (b"text/html, application/json;q=0.9", ResponseFormat.JSON),
        (b"application/x-ndjson", ResponseFormat.LINES),
        (b"application/json, Application/X-NDJSON;q=0.1", ResponseFormat.LINES),
        (b"*/*,application/x-ndjson", ResponseFormat.LINES),
    ],
)
def test_ndjson_is_returned_if_accepted_and_json_otherwise(accept: bytes, form: ResponseFormat) -> None:
    assert form_of(accept) is form


@pytest.mark.parametrize("accept", [b"text/html", b"text/*", b"application/xml, image/png"])
def test_an_unsupported_media_type_is_not_acceptable(accept: bytes) -> None:
    with pytest.raises(NotAcceptable) as caught:
        form_of(accept)
    assert caught.value.status == 406


@pytest.mark.parametrize("accept", [b"json", b"a/b/c", b"a b/c", b"x/y," * 1000])
def test_an_accept_header_that_cannot_be_read_is_invalid(accept: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        form_of(accept)
    assert caught.value.status == 400


def test_content_is_named_by_cids_of_any_codec_and_by_its_multihash() -> None:
    names = [str(cid.of(b"content-0", codec)) for codec in (cid.RAW, cid.DAG_CBOR)] + [base58(CONTENT)]
    assert {multihash_of_cid(name) for name in names} == {CONTENT}
    assert multihash_of_text(base58(CONTENT)) == multihash_of_text(CONTENT.hex()) == CONTENT


def test_hexadecimal_that_also_reads_as_base58_is_not_mistaken() -> None:
    unusual = multihash.wrap(0x1B, b"\x11" * 28)
    assert set(unusual.hex()) <= set("123456789abcdef"), "it has no 0, which base58 lacks"
    assert multihash_of_text(unusual.hex()) == unusual


@pytest.mark.parametrize("text", ["", "0", "zz!", "12", "1220ab", "é", "9" * 600])
def test_an_invalid_multihash_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        multihash_of_text(text)


def test_a_double_hashed_lookup_is_by_second_hashes_only() -> None:
    second = multihash.wrap(multihash.DBL_SHA2_256, b"\x01" * 32)
    assert second_hash(second) == second
    with pytest.raises(Invalid, match="0x56"):
        second_hash(CONTENT)
