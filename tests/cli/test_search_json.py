"""A result as JSON: exact for names and lines of any bytes, and safe to print."""

import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.cli.search_output import answer_fields, document, file_fields, plain
from argosy.search.model import Chunk, FileMatch, LimitHit, Location, SearchResult


def exact(fields: dict[str, Any], name: str) -> bytes:
    """The bytes of a field, as a reader gets them."""
    return b64decode(fields[f"{name}_base64"]) if f"{name}_base64" in fields else fields[name].encode()


@given(st.binary(max_size=100), st.binary(max_size=30))
def test_names_and_lines_round_trip_byte_for_byte(content: bytes, name: bytes) -> None:
    path = name.decode("utf-8", "surrogateescape")
    chunk = Chunk(content, Location(0, 1, 1), ())
    json_fields = document(file_fields(FileMatch("r", path, chunks=(chunk,)), f"in/{path}"))
    assert json_fields.encode()  # it can be written as UTF-8
    fields = json.loads(json_fields)
    assert exact(fields, "path") == name
    assert exact(fields, "file") == b"in/" + name
    assert exact(fields["chunks"][0], "content") == content


def test_a_twin_is_there_only_where_it_is_needed() -> None:
    fields = file_fields(FileMatch("r", "ä.txt"), "ä.txt")
    assert (fields["path"], [name for name in fields if name.endswith("_base64")]) == ("ä.txt", [])
    fields = file_fields(FileMatch("r", "\udcff.txt"), "\udcff.txt")
    assert (fields["path"], fields["path_base64"]) == ("�.txt", "/y50eHQ=")


@pytest.mark.parametrize("letter", ["\x1b", "\x7f", "\x9b", "\u202e", "\u2028", "\u2066", "\n"])
def test_terminal_control_characters_are_escaped_and_round_trip(letter: str) -> None:
    json_fields = document({"x": f"a{letter}b"})
    assert letter not in json_fields
    assert json.loads(json_fields) == {"x": f"a{letter}b"}


def test_one_line_unless_it_is_indented() -> None:
    assert document({"a": [1, "\n"]}) == '{"a":[1,"\\n"]}'
    assert document({"a": 1}, indent=2) == '{\n  "a": 1\n}'


def test_every_reached_limit_is_reported() -> None:
    json_fields = answer_fields(SearchResult(limits_hit=(LimitHit.FILES_SHOWN, LimitHit.WALL_TIME)))
    assert json_fields["limits_hit"] == ["files_max", "wall_time_s"]
    assert json_fields["is_complete"] is False
    assert answer_fields(SearchResult())["is_complete"] is True


def test_undecodable_text_in_a_list_does_not_break_the_whole() -> None:
    assert plain(FileMatch("r", "x", branches=("\udcff",)))["branches"] == ["�"]
