"""`argosy find`: valid arguments, and errors of invalid ones."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from argosy.cli.find import find

NOWHERE = ("--url", "http://127.0.0.1:9")


def find_error(*words: str) -> tuple[int, str]:
    answer = CliRunner().invoke(find, [*words, *NOWHERE])
    assert answer.stdout == ""
    return answer.exit_code, answer.stderr


def test_an_argument_that_is_neither_file_nor_hash_is_reported(tmp_path: Path) -> None:
    assert find_error("nothing.py") == (
        2,
        "error: 'nothing.py' not found: no such file, and not a CID or a multihash in base58 or hexadecimal\n",
    )
    assert find_error(str(tmp_path)) == (2, f"error: {str(tmp_path)!r} is a directory; pass the files in it\n")


@pytest.mark.parametrize(
    "name",
    [
        "bafkreier4jdzl7v3ofksripnjzwa2srh6wdk5fdkn7ierycuintmuual6a",
        "12201a59c31eeb25dfeb172e1dffb5a1f0545a1300f6d0a33671337e425e9be70e29",
        __file__,
    ],
)
def test_an_indexer_that_does_not_answer_is_named(name: str) -> None:
    code, words = find_error(name)
    assert code == 2
    assert "http://127.0.0.1:9 unreachable" in words
    assert "unreachable" in words


def test_an_error_is_printed_as_json_on_request() -> None:
    code, words = find_error("nothing.py", "--json")
    assert (code, json.loads(words)["error"]["kind"]) == (2, "NotFound")


def test_a_host_alone_is_no_url() -> None:
    answer = CliRunner().invoke(find, [__file__, "--url", "127.0.0.1:3000"])
    assert (answer.exit_code, answer.stderr) == (
        2,
        "error: invalid URL '127.0.0.1:3000': expected http://host:port or https://host\n",
    )
