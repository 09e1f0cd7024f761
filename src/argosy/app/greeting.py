"""What a person at a terminal sees while a process comes up: where it is, and how far the indexes are."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from argosy.base.errors import ArgosyError
from argosy.gateway.model import FleetStatus, RepoState, RepoView

LOOK_S = 0.5
BARS_MAX = 12               # repositories with a bar of their own

_ANSWERING = (RepoState.READY, RepoState.DRAINING)


def say_hello(address: str) -> None:
    """Addresses for people; programs read the log."""
    if sys.stderr.isatty():
        url = f"http://{address}"
        sys.stderr.write(f"\n  argosy is up at {url}   fleet: {url}/fleet   API: {url}/v1/openapi.json\n")
        sys.stderr.write("  Ctrl-C drains and stops\n\n")


async def show_progress(status: Callable[[], Awaitable[FleetStatus]]) -> None:
    """Bars on the terminal until every repository is ready or has failed; then it only lasts."""
    if sys.stderr.isatty():
        console = Console(stderr=True)
        texts = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[word]}")
        columns = (texts[0], BarColumn(), MofNCompleteColumn(), texts[1])
        with Progress(*columns, console=console, transient=True) as bars:
            shown = _Shown(bars)
            while not shown.is_over:
                try:
                    shown.update(await status())
                except ArgosyError:
                    pass                # not ready yet: look again
                await asyncio.sleep(LOOK_S)
        for line in shown.summary:
            console.print(line, highlight=False, markup=False)
    await asyncio.Event().wait()


class _Shown:
    """The bars of one terminal: all repositories together, and those at work."""

    def __init__(self, bars: Progress) -> None:
        self.is_over = False
        self.summary: list[str] = []
        self._bars = bars
        self._all = bars.add_task("repositories", total=None, word="")
        self._tasks: dict[str, TaskID] = {}

    def update(self, fleet: FleetStatus) -> None:
        repositories = fleet.repositories
        done = [each for each in repositories if each.state in _ANSWERING]
        failed = [each for each in repositories if each.state is RepoState.FAILED]
        self._bars.update(self._all, total=len(repositories), completed=len(done), word=f"{len(failed)} failed")
        at_work = [each for each in repositories if each.state is RepoState.WARMING and each.status is not None]
        self._show(at_work[:BARS_MAX])
        self.is_over = len(done) + len(failed) == len(repositories)
        if self.is_over:
            held = sum(each.status.memory_bytes for each in done if each.status is not None)
            self.summary = [f"  {len(done)} repositories are ready, {held / 1e6:,.0f} MB in memory"]
            self.summary += [f"  {each.name}: {each.reason}" for each in failed]

    def _show(self, at_work: list[RepoView]) -> None:
        names = {each.name for each in at_work}
        for name in [name for name in self._tasks if name not in names]:
            self._bars.remove_task(self._tasks.pop(name))
        for each in at_work:
            assert each.status is not None
            if each.name not in self._tasks:
                self._tasks[each.name] = self._bars.add_task(f"  {each.name}", total=100, word="")
            percent = int(each.status.progress * 100)
            self._bars.update(self._tasks[each.name], completed=percent, word=each.status.phase.value)
