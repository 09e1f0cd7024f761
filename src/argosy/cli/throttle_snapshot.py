"""`argosy throttle top`: reads the buckets of the current window from the shared store, at the store's own time.

An exchange without changes writes nothing, so reading leaves no trace in the store.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import click

from argosy.throttle import BucketStats, ThrottleSettings
from argosy.throttle.blue import decay
from argosy.throttle.factory import open_row_store
from argosy.throttle.levels import levels_of
from argosy.throttle.ports import RowId, RowPull, RowState, RowVersion, SyncBatch
from argosy.throttle.rows import row_rules

if TYPE_CHECKING:
    from rich.console import Group

INSTANCE = "top"  # an instance name that no throttle uses; it never writes, so no row contains it


@dataclass(frozen=True)
class HotBucket:
    """One bucket with its present probability."""

    level: int
    bucket: int
    probability: float
    updated_s_ago: float
    clients: tuple[str, ...]  # of the requested clients


@dataclass(frozen=True)
class ClientStanding:
    """A client: the fraction of its requests that would be rejected, and its bucket on each level."""

    client: str
    probability: float
    buckets: tuple[BucketStats, ...]


@dataclass(frozen=True)
class WindowSnapshot:
    """The active window at one instant."""

    window_seed: int
    rotates_in_s: float
    writers: int  # instances that have written to this window
    blamed: int  # buckets with a probability above zero
    hottest: tuple[HotBucket, ...]
    clients: tuple[ClientStanding, ...]


class WindowReader:
    """Reads snapshots of the active window from the store."""

    def __init__(self, settings: ThrottleSettings, *, clients: Sequence[str], count: int) -> None:
        assert settings.store is not None
        self._config = settings.config()
        self._clients = tuple(clients)
        self._count = count
        self._rows = open_row_store(settings.store, row_rules(self._config), instance=INSTANCE, settings=settings)
        self._seed: int | None = None

    def read(self) -> WindowSnapshot:
        """A snapshot of the active window; the first call also reads the store's time."""
        config = self._config
        if self._seed is None:
            # The window follows from the store's clock, which only a reply contains. Seed 0 has no rows, so this
            # read is cheap.
            self._seed = self._seed_at(self._pull(0)[1])
        rows, now_ms = self._pull(self._seed)
        if self._seed_at(now_ms) != self._seed:  # the window has rotated since the last call
            self._seed = self._seed_at(now_ms)
            rows, now_ms = self._pull(self._seed)
        standing = {
            (row.cell.row, col): (decay(state.prob, state.at_ms, now_ms, config.decay_per_ms), state.at_ms)
            for row in rows
            for col, state in (row.states or {}).items()
        }
        places = {client: tuple(enumerate(levels_of(config, self._seed)(client.encode()))) for client in self._clients}
        # Buckets at zero are not shown: most buckets of a healthy fleet are.
        worst = nlargest(self._count, ((prob, place, at_ms) for place, (prob, at_ms) in standing.items() if prob))
        return WindowSnapshot(
            window_seed=self._seed,
            rotates_in_s=round((self._seed + config.window_ms - now_ms) / 1000, 1),
            writers=len({writer for row in rows for writer in row.writers}),
            blamed=sum(1 for probability, _ in standing.values() if probability),
            hottest=tuple(
                HotBucket(*place, prob, round(max(0.0, now_ms - at_ms) / 1000, 3), _whose(place, places))
                for prob, place, at_ms in worst
            ),
            clients=tuple(self._standing(client, places[client], standing) for client in self._clients),
        )

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self._rows.close()

    def _seed_at(self, now_ms: float) -> int:
        return int(now_ms) // self._config.window_ms * self._config.window_ms

    def _pull(self, seed: int) -> tuple[Sequence[RowState], float]:
        pulls = tuple(RowPull(RowId(seed, row), RowVersion()) for row in range(self._config.levels))
        reply = self._rows.exchange(SyncBatch(pulls=pulls))
        return reply.pulled, time.time() * 1000 if reply.server_ms is None else reply.server_ms

    def _standing(
        self,
        client: str,
        places: Sequence[tuple[int, int]],
        standing: dict[tuple[int, int], tuple[float, int]],
    ) -> ClientStanding:
        found = tuple(BucketStats(*place, standing.get(place, (0.0, 0))[0]) for place in places)
        return ClientStanding(client, self._config.final([each.probability for each in found]), found)


def _whose(place: tuple[int, int], places: dict[str, tuple[tuple[int, int], ...]]) -> tuple[str, ...]:
    return tuple(client for client, own in places.items() if place in own)


def to_json(snapshot: WindowSnapshot) -> dict[str, Any]:
    clients = [{**asdict(each), "buckets": [bucket._asdict() for bucket in each.buckets]} for each in snapshot.clients]
    return {**asdict(snapshot), "clients": clients}


def show(reader: WindowReader, *, interval_s: float, is_once: bool) -> None:
    """Prints snapshots as tables: one that is updated on a terminal, otherwise one after another."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stdout, highlight=False)
    if is_once or not sys.stdout.isatty():
        console.print(_table(reader.read()))
        while not is_once:
            reader.wait(interval_s)
            console.print(_table(reader.read()))
        return
    with Live(_table(reader.read()), console=console, auto_refresh=False) as live:
        try:
            while True:
                reader.wait(interval_s)
                live.update(_table(reader.read()), refresh=True)
        except KeyboardInterrupt:
            click.echo("", nl=False)  # the usual way to stop it, not a failure


def _table(snapshot: WindowSnapshot) -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = (
        f"window {snapshot.window_seed}, rotates in {snapshot.rotates_in_s:.0f} s · {snapshot.writers} instances · "
        f"{snapshot.blamed} buckets blamed"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("level", "bucket", "probability", "updated (s ago)"):
        table.add_column(name, justify="right")
    table.add_column("client")
    for bucket in snapshot.hottest:
        cells = (str(bucket.level), str(bucket.bucket), f"{bucket.probability:.4f}", f"{bucket.updated_s_ago:.1f}")
        table.add_row(*cells, Text(", ".join(bucket.clients)))
    for client in snapshot.clients:
        table.add_row("", "", f"{client.probability:.4f}", "", Text(client.client))
    return Group(Text(title), table)
