"""The accounted memory of an index is the growth of the process."""

import subprocess
import sys
from pathlib import Path

import pytest

from argosy.search.backends.memory import one_branch
from argosy.search.index.build import build
from argosy.search.index.index import Index, Part
from argosy.search.index.sections import BRANCHES, OBJECTS, SECTIONS, memory_bytes, section_bytes, text_bytes
from argosy.search.skip_policy import Policy

ERROR_SHARE_MAX = 0.02
WEIGHT_PER_TEXT_MAX = 1.4


def test_the_accounted_memory_is_within_two_percent_of_the_growth_of_the_process() -> None:
    script = Path(__file__).with_name("growth.py")
    output = subprocess.run([sys.executable, script], capture_output=True, check=True).stdout
    grown, weighed, text = map(int, output.split())
    assert text > 80_000_000
    assert abs(grown - weighed) <= ERROR_SHARE_MAX * weighed
    assert weighed <= WEIGHT_PER_TEXT_MAX * text


def test_the_sections_are_the_whole() -> None:
    index = build(one_branch("r", {"a.c": b"int a;\n" * 3000}), Policy())
    table = section_bytes(index)
    assert list(table) == [*SECTIONS, BRANCHES, OBJECTS]
    assert sum(table.values()) == memory_bytes(index)
    assert table["content.data"] >= text_bytes(index) == 3000 * 7 + 1
    assert table[OBJECTS] < 10_000


def test_what_is_shared_within_an_index_is_weighed_once() -> None:
    index = build(one_branch("r", {"a.c": b"int a;\n" * 3000}), Policy())
    (part,) = index.parts
    twice = Index(index.repository, (part, Part(part.segment, part.branches.copy())))
    assert memory_bytes(twice) - memory_bytes(index) < 500


def test_an_array_that_would_keep_more_alive_than_itself_is_rejected() -> None:
    index = build(one_branch("r", {"a.c": b"int a;\n" * 3000}), Policy())
    (part,) = index.parts
    with pytest.raises(AssertionError, match="owns its memory"):
        memory_bytes(Index(index.repository, (Part(part.segment, part.branches[:1]),)))
