"""What a person at a terminal sees: bars that logs do not break, and words of strangers as they are."""

import asyncio
import sys
from io import StringIO

import pytest

from argosy.app.greeting import show_progress
from argosy.gateway.model import FleetStatus, RepoState, RepoView
from argosy.search.fleet.model import Wish

WORDS = "there is no file or folder '[/b]': check the path"


class Screen(StringIO):
    """A terminal that remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.has_words = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if WORDS in text:
            self.has_words.set()
        return super().write(text)


async def test_why_a_repository_failed_is_told_whatever_signs_are_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "200")
    failed = RepoView("[/i]", RepoState.FAILED, Wish("[/i]", "https://example.org/i"), reason=WORDS)

    async def status() -> FleetStatus:
        return FleetStatus(0.0, repositories=(failed,))

    async with asyncio.timeout(10):
        showing = asyncio.create_task(show_progress(status))
        seen = asyncio.create_task(screen.has_words.wait())
        await asyncio.wait([showing, seen], return_when=asyncio.FIRST_COMPLETED)
        seen.cancel()
        assert not showing.done(), showing.exception()
        showing.cancel()
    assert f"[/i]: {WORDS}" in screen.getvalue()
