"""What `argosy throttle top` shows: the buckets in the shared store, as of the store's own time.

It only reads: an exchange without changes writes nothing, and leaves no trace of who looked.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import click

from argosy.throttle import BucketStats, ThrottleSettings
from argosy.throttle.backends.factory import open_row_store
from argosy.throttle.blue import decay
from argosy.throttle.levels import levels_of
from argosy.throttle.ports import RowId, RowPull, RowState, RowVersion, SyncBatch
from argosy.throttle.rows import row_rules

if TYPE_CHECKING:
    from rich.console import Group

INSTANCE = "top"  # a name of its own; it never writes, so no row ever contains it


@dataclass(frozen=True)
class HotBucket:
    """One bucket as it stands now."""

    level: int
    bucket: int
    probability: float
    updated_s_ago: float
    clients: tuple[str, ...]  # of those that were asked for


@dataclass(frozen=True)
class ClientStanding:
    """Where a client stands: its part of requests that would be turned away, and its bucket on each level."""

    client: str
    probability: float
    buckets: tuple[BucketStats, ...]


@dataclass(frozen=True)
class Look:
    """The deciding window at one instant."""

    window_seed: int
    rotates_in_s: float
    writers: int  # instances that have told something of this window
    blamed: int  # buckets with a probability above zero
    hottest: tuple[HotBucket, ...]
    clients: tuple[ClientStanding, ...]


class Watch:
    """Looks at the store as often as asked."""

    def __init__(self, settings: ThrottleSettings, *, clients: Sequence[str], count: int) -> None:
        assert settings.store is not None
        self._config = settings.config()
        self._clients = tuple(clients)
        self._count = count
        self._rows = open_row_store(settings.store, row_rules(self._config), instance=INSTANCE, settings=settings)
        self._seed: int | None = None

    def look(self) -> Look:
        """The window of now; the first look also asks what time the store has."""
        config = self._config
        if self._seed is None:
            self._seed = self._seed_at(self._pulled(0)[1])
        rows, now_ms = self._pulled(self._seed)
        if self._seed_at(now_ms) != self._seed:  # it has turned since the last look
            self._seed = self._seed_at(now_ms)
            rows, now_ms = self._pulled(self._seed)
        standing = {
            (row.cell.row, col): (decay(state.prob, state.at_ms, now_ms, config.decay_per_ms), state.at_ms)
            for row in rows
            for col, state in (row.states or {}).items()
        }
        places = {client: tuple(enumerate(levels_of(config, self._seed)(client.encode()))) for client in self._clients}
        worst = nlargest(self._count, ((prob, place, at_ms) for place, (prob, at_ms) in standing.items() if prob))
        return Look(
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

    def _pulled(self, seed: int) -> tuple[Sequence[RowState], float]:
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


def told(look: Look) -> dict[str, Any]:
    """A look for machines."""
    clients = [{**asdict(each), "buckets": [bucket._asdict() for bucket in each.buckets]} for each in look.clients]
    return {**asdict(look), "clients": clients}


def show(watch: Watch, *, interval_s: float, is_once: bool) -> None:
    """Looks for people: a table that changes on a terminal, one after another elsewhere."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stdout, highlight=False)
    if is_once or not sys.stdout.isatty():
        console.print(_table(watch.look()))
        while not is_once:
            watch.wait(interval_s)
            console.print(_table(watch.look()))
        return
    with Live(_table(watch.look()), console=console, auto_refresh=False) as live:
        try:
            while True:
                watch.wait(interval_s)
                live.update(_table(watch.look()), refresh=True)
        except KeyboardInterrupt:
            click.echo("", nl=False)  # the usual way to end it, and no failure


def _table(look: Look) -> "Group":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = (
        f"window {look.window_seed}, turns in {look.rotates_in_s:.0f} s · {look.writers} instances · "
        f"{look.blamed} buckets blamed"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("level", "bucket", "probability", "updated (s ago)"):
        table.add_column(name, justify="right")
    table.add_column("client")
    for bucket in look.hottest:
        cells = (str(bucket.level), str(bucket.bucket), f"{bucket.probability:.4f}", f"{bucket.updated_s_ago:.1f}")
        table.add_row(*cells, Text(", ".join(bucket.clients)))
    for client in look.clients:
        table.add_row("", "", f"{client.probability:.4f}", "", Text(client.client))
    return Group(Text(title), table)
