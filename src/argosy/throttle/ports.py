"""What a fair throttle needs of a shared store: the storage service of the design document, and the rows behind it.

`StorageService` is the contract of the document, word for word; none of its methods waits. `RowStore` is the port of
our own service: one exchange with the store, which may take long or fail, and which only a background worker calls
(THR-2).

A row is one level of one window, a column is one bucket of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from argosy.base.errors import Unavailable


class QueueFull(Unavailable):
    """The queue of pending updates is full; none of these was accepted."""


class BucketDelta(NamedTuple):
    """A change that an instance made to one bucket, as of `last_update_time_ms`."""

    row_id: int
    col_id: int
    delta_prob: float
    last_update_time_ms: int


class Update(NamedTuple):
    """A batch of changes to one window."""

    seed: int
    deltas: Sequence[BucketDelta]


class OverwriteBucket(NamedTuple):
    """The state of a bucket in the store. `pending` is the sum of the updates that `prob` does not contain yet.

    The document has no such field, and describes the race that follows: a fetched value undoes an update in flight.
    """

    row_id: int
    col_id: int
    prob: float
    last_update_time_ms: int
    pending: float = 0.0


class RespBucket(NamedTuple):
    """Buckets of one window, as read from the store."""

    seed: int
    updates: Sequence[OverwriteBucket]


class Channel(Protocol):
    """The queue of responses. A slow reader gets the latest state of each bucket, not every intermediate one."""

    def take(self) -> list[RespBucket]:
        """The responses since the last call; never waits."""
        ...


class StorageService(Protocol):
    """Shares buckets between instances. No method waits."""

    def update(self, updates: Sequence[Update]) -> None:
        """Queues changes for the next batch; QueueFull if they do not fit, and then none of them is queued."""
        ...

    def request(self, seed: int) -> None:
        """Requests the buckets of a window; they arrive on the channel when the store has answered."""
        ...

    def recv(self) -> Channel:
        """The channel of this service, always the same one."""
        ...


# -- the store behind the service -------------------------------------------------------------------------------------


class RowId(NamedTuple):
    """The identity of a row."""

    seed: int
    row: int


class BucketState(NamedTuple):
    """The probability of a bucket at an instant."""

    prob: float
    at_ms: int


class RowVersion(NamedTuple):
    """The version of a row: `version` counts the writes since the row was created at `born_us`, so that a row that was
    lost and created again differs from the old one. A missing row has (0, 0)."""

    born_us: int = 0
    version: int = 0


@dataclass(frozen=True)
class RowPush:
    """Changes to columns of a row. The store applies each number of an instance once, however often it is sent."""

    cell: RowId
    number: int
    deltas: tuple[tuple[int, float, int], ...]  # column, change, as of ms


@dataclass(frozen=True)
class RowRestore:
    """The content of a row that the store has lost; per bucket the greater value wins."""

    cell: RowId
    states: tuple[tuple[int, float, int], ...]  # column, probability, as of ms


@dataclass(frozen=True)
class RowPull:
    """Reads a row, unless no other instance has written to it since the version `seen`."""

    cell: RowId
    seen: RowVersion


@dataclass(frozen=True)
class SyncBatch:
    """One exchange with the store: restores, then pushes, then pulls, so that the pulls see all writes."""

    restores: tuple[RowRestore, ...] = ()
    pushes: tuple[RowPush, ...] = ()
    pulls: tuple[RowPull, ...] = ()


@dataclass(frozen=True)
class RowWrite:
    """The result of a push or restore: the version of the row and the states of the columns that it named."""

    cell: RowId
    mark: RowVersion
    is_duplicate: bool
    states: dict[int, BucketState]


@dataclass(frozen=True)
class RowState:
    """The state of a row. `states` has all columns, or those that changed since the version of the pull; None if no
    other instance has written since. `writers` has the last number of each instance."""

    cell: RowId
    mark: RowVersion
    states: dict[int, BucketState] | None = None
    writers: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SyncReply:
    """The results of a batch, part by part."""

    restored: tuple[RowWrite, ...]
    pushed: tuple[RowWrite, ...]
    pulled: tuple[RowState, ...]
    server_ms: float | None = None  # the store's clock at the middle of the first round trip, if it has a clock
    round_trip_s: float = 0.0
    at_ms: float = 0.0  # the wall clock of this process at that moment


class RowStore(Protocol):
    """A store of rows. Decay, addition, clamping and the newest time are one atomic step per row."""

    def exchange(self, batch: SyncBatch) -> SyncReply:
        """Executes a batch. Unavailable if part of it may not have been executed; the batch may be sent again.
        Conflict if a throttle of another configuration uses the same keys."""
        ...

    def close(self) -> None: ...
