"""JSON as Go writes it."""

import json

import pytest

from argosy.gateway.zoekt.go_compat import ZERO_TIME, decode_text, encode, text, time_text


def test_characters_that_open_a_tag_are_escaped_and_a_newline_ends_the_text() -> None:
    value = {"a<b>&c": "\u2028\u2029"}
    assert encode(value) == rb'{"a\u003cb\u003e\u0026c":"\u2028\u2029"}' + b"\n"
    assert json.loads(encode(value)) == value


def test_bytes_are_padded_base64_and_nothing_is_null() -> None:
    assert encode([b"a", b"", None]) == b'["YQ==","",null]\n'


def test_a_name_that_is_no_text_can_be_sent() -> None:
    assert text("caf\udce9/é") == "caf\ufffd/é"
    assert encode(text("\udcff")) == '"\ufffd"\n'.encode()


@pytest.mark.parametrize("content", [b"ok \xc3\xa9", b"\xe2\x82", b"a\xff\xfeb"])
def test_each_byte_outside_of_a_character_is_one_character(content: bytes) -> None:
    shown = decode_text(content)
    assert len(shown) == len(content.decode("utf-8", "surrogateescape"))
    assert shown.encode()


def test_times_are_rfc_3339() -> None:
    assert time_text(1_700_000_000.5) == "2023-11-14T22:13:20.500000Z"
    assert time_text(0) == ZERO_TIME
