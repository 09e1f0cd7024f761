"""When a process that starts is ready, and what is reported of its repositories."""

import asyncio

import pytest

from argosy.app import startup
from argosy.app.startup import IndexProgress, LogDisplay, classify, watch_startup
from argosy.base.errors import Unavailable
from argosy.gateway.ports import FleetStatus, RepoState, RepoView
from argosy.search.fleet.model import Phase, RepoSpec, RepoStatus

WITHIN_S = 10


def view(name: str, state: RepoState, *, reason: str = "", failed_at: int | None = None) -> RepoView:
    spec = RepoSpec(name, "https://example.org", failures=failed_at is not None, last_failed_at=failed_at)
    status = RepoStatus(name, Phase.READY, memory_bytes=5) if state is RepoState.READY else None
    return RepoView(name, state, spec, status=status, reason=reason)


class Recorder(LogDisplay):
    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()
        self.warnings: list[str] = []
        self.warned = asyncio.Event()

    def show_ready(self, progress: IndexProgress) -> None:
        super().show_ready(progress)
        self.ready.set()

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self.warned.set()


def test_a_failure_of_a_former_run_does_not_count() -> None:
    fleet = FleetStatus(
        0.0,
        repositories=(
            view("new", RepoState.FAILED, failed_at=1000),
            view("old", RepoState.FAILED, failed_at=999),
            view("ready", RepoState.READY),
        ),
    )
    progress = classify(fleet, since_ms=1000.0)
    assert [each.name for each in progress.failed] == ["new"]
    assert [each.name for each in progress.pending] == ["old"]
    assert (progress.total, progress.memory_bytes) == (3, 5)


async def test_ready_waits_for_the_roles_and_for_every_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "POLL_S", 0.0)
    monkeypatch.setattr(startup, "READY_POLL_S", 0.0)
    polls = asyncio.Queue[None]()
    has_catalog = is_serving = False
    repositories: tuple[RepoView, ...] = (view("a", RepoState.UNOWNED),)

    async def status() -> FleetStatus:
        nonlocal has_catalog
        polls.put_nowait(None)
        if not has_catalog:
            has_catalog = True
            raise Unavailable("the gateway has no catalog yet")
        return FleetStatus(0.0, repositories=repositories)

    async def wait_for_poll() -> None:
        """Returns when a poll that started after this call is over."""
        while not polls.empty():
            polls.get_nowait()
        for _ in range(2):
            await polls.get()

    display = Recorder()
    watching = asyncio.create_task(watch_startup(display, lambda: is_serving, status))
    async with asyncio.timeout(WITHIN_S):
        is_serving = True
        await wait_for_poll()
        assert not display.ready.is_set(), "a repository has no node"
        is_serving = False
        repositories = (view("a", RepoState.READY),)
        await wait_for_poll()
        assert not display.ready.is_set(), "a role is not ready"
        is_serving = True
        await display.ready.wait()
        assert display.warnings == []
        repositories = (view("a", RepoState.READY, reason="host not reached"),)
        await display.warned.wait()
        await wait_for_poll()
        assert display.warnings == ["a: host not reached"], "once"
    watching.cancel()


async def test_a_repository_no_node_claims_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "POLL_S", 0.0)
    monkeypatch.setattr(startup, "STALL_S", 0.05)
    fleet = FleetStatus(0.0, repositories=(view("big", RepoState.UNOWNED), view("a", RepoState.READY)))

    async def status() -> FleetStatus:
        return fleet

    display = Recorder()
    watching = asyncio.create_task(watch_startup(display, lambda: True, status))
    async with asyncio.timeout(WITHIN_S):
        await display.ready.wait()
    assert display.warnings == ["big: no node has enough free memory"]
    watching.cancel()
