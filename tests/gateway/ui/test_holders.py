"""The page of a file names the other holders of its content."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256

import pytest

from argosy.base.errors import Unavailable
from argosy.gateway.ui import WebUi
from argosy.gateway.ui.files import OTHERS_MAX, FileHolder, others_view
from tests.gateway.ui.ui_fixture import CRANE, HARBOUR, fleet_of, web_of

PAGE = f"/r/{HARBOUR}/-/cmd/crane/crane.go"


class Known:
    """Implements `Holders` for one content."""

    def __init__(self, *holders: FileHolder, failure: Exception | None = None, is_silent: bool = False) -> None:
        self.found = holders
        self.failure = failure
        self.is_silent = is_silent

    async def holders(self, digest: bytes) -> Sequence[FileHolder]:
        assert digest == sha256(CRANE).digest()
        if self.failure is not None:
            raise self.failure
        if self.is_silent:
            await asyncio.Event().wait()
        return self.found


async def page(holders: Known | None) -> str:
    fleet = fleet_of()
    try:
        async with web_of(WebUi(fleet.gateway, holders=holders)) as client:
            answer = await client.get(PAGE)
            assert answer.status_code == 200
            return answer.text
    finally:
        fleet.close()


async def test_others_with_the_same_file_are_named_and_linked() -> None:
    copy = FileHolder("copy", "0123456789abcdef", "/r/copy")
    text = await page(Known(FileHolder(HARBOUR, "c0ffee"), copy, copy, FileHolder("12D3Koo")))
    note = text.partition("identical file in ")[2].partition("</p>")[0]
    assert note == '12D3Koo, <a href="/r/copy">copy@0123456789</a>'


async def test_names_from_other_nodes_are_only_text() -> None:
    text = await page(Known(FileHolder("<script>alert(1)</script>\u202e")))
    assert "<script>alert(1)" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    "holders",
    [
        None,
        Known(),
        Known(FileHolder(HARBOUR)),
        Known(failure=Unavailable("no indexer answers")),
        Known(is_silent=True),
    ],
    ids=["no index", "no holder", "only this one", "index unreachable", "index silent"],
)
async def test_a_page_is_shown_without_holders_if_there_are_none_or_the_lookup_fails(holders: Known | None) -> None:
    text = await page(holders)
    assert "also in" not in text
    assert "Lift" in text


def test_many_are_counted_and_each_is_named_once() -> None:
    view = others_view([FileHolder(f"copy{number:03}", url="/r/x") for number in (*range(50), *range(50))], "this")
    assert (len(view.shown), view.more) == (OTHERS_MAX, 50 - OTHERS_MAX)
