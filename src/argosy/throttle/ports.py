"""What a fair throttle needs of a shared store: the storage service of the design document, and the rows behind it.

`StorageService` is the document's contract word for word: nothing of it ever waits. `Rows` is what our own service
talks to: one exchange with the store, which may take long or fail, and which only a background worker ever calls
(THR-2).

A row is one level of one window, a column one bucket of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from argosy.base.errors import Unavailable


class QueueFull(Unavailable):
    """More updates are waiting than the service keeps: these were not taken."""


class BucketDelta(NamedTuple):
    """What an instance has changed of one bucket; it counts as of `last_update_time_ms`."""

    row_id: int
    col_id: int
    delta_prob: float
    last_update_time_ms: int


class Update(NamedTuple):
    """A batch of changes to one window."""

    seed: int
    deltas: Sequence[BucketDelta]


class OverwriteBucket(NamedTuple):
    """A bucket as the store has it. `pending` is what this service has taken in and `prob` does not yet contain.

    The document has no such field, and names the race that follows: a fetched value undoes an update on its way.
    """

    row_id: int
    col_id: int
    prob: float
    last_update_time_ms: int
    pending: float = 0.0


class RespBucket(NamedTuple):
    """Buckets of one window as the store has them."""

    seed: int
    updates: Sequence[OverwriteBucket]


class Channel(Protocol):
    """Where the answers arrive. A slow reader finds the latest state of each bucket, not every state it had."""

    def take(self) -> list[RespBucket]:
        """All that has arrived since the last call; never waits."""
        ...


class StorageService(Protocol):
    """Shares buckets between instances. No method waits."""

    def update(self, updates: Sequence[Update]) -> None:
        """Takes changes in, to be committed soon; QueueFull if there is no room, and then none of them is taken."""
        ...

    def request(self, seed: int) -> None:
        """Asks for the buckets of a window; they come through the channel, if the store answers."""
        ...

    def recv(self) -> Channel:
        """The one channel of this service, the same for as long as it lives."""
        ...


# -- the store behind the service -------------------------------------------------------------------------------------


class RowId(NamedTuple):
    """A row of the store."""

    seed: int
    row: int


class BucketState(NamedTuple):
    """A bucket's probability as of an instant."""

    prob: float
    at_ms: int


class RowVersion(NamedTuple):
    """Which state of a row one has seen: `version` counts its writes since `born_us`, which tells one life of the row
    from the next. A row that is not there has the mark (0, 0)."""

    born_us: int = 0
    version: int = 0


@dataclass(frozen=True)
class RowPush:
    """Changes to some columns of a row. The store applies a number of one instance once, however often it is sent."""

    cell: RowId
    number: int
    deltas: tuple[tuple[int, float, int], ...]  # column, change, as of ms


@dataclass(frozen=True)
class RowRestore:
    """What a row contained, for a store that has forgotten it: the greater value stays."""

    cell: RowId
    states: tuple[tuple[int, float, int], ...]  # column, probability, as of ms


@dataclass(frozen=True)
class RowPull:
    """Asks for a row, unless nobody else has written to it since the mark."""

    cell: RowId
    seen: RowVersion


@dataclass(frozen=True)
class SyncBatch:
    """One exchange with the store: restores first, then pushes, then pulls, so that these see all the rest."""

    restores: tuple[RowRestore, ...] = ()
    pushes: tuple[RowPush, ...] = ()
    pulls: tuple[RowPull, ...] = ()


@dataclass(frozen=True)
class RowWrite:
    """What a push or restore has left of the columns it named, and the row's mark after it."""

    cell: RowId
    mark: RowVersion
    is_duplicate: bool
    states: dict[int, BucketState]


@dataclass(frozen=True)
class RowState:
    """A row as it is now. `states` are all its columns, or those that differ from the row as the pull knew it; None
    where nobody but the one who asks has written since. `writers` is the last number of each instance."""

    cell: RowId
    mark: RowVersion
    states: dict[int, BucketState] | None = None
    writers: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SyncReply:
    """The store's answer to an order, part by part."""

    restored: tuple[RowWrite, ...]
    pushed: tuple[RowWrite, ...]
    pulled: tuple[RowState, ...]
    server_ms: float | None = None  # the store's clock half-way through the first round trip, if it has one
    round_trip_s: float = 0.0
    at_ms: float = 0.0  # this process's wall clock at that moment


class RowStore(Protocol):
    """A store of rows. It decays, adds, clamps and keeps the newest time within one atomic step per row."""

    def exchange(self, order: SyncBatch) -> SyncReply:
        """Carries out an order; Unavailable if part of it may not have happened, and then it may be sent again.
        Conflict if another throttle, of another configuration, keeps its state under the same names."""
        ...

    def close(self) -> None: ...
