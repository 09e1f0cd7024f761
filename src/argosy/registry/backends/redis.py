"""The registry in Redis or Valkey, for fleets of many processes.

A transaction reads through one script and commits through another, so what it reads together is as of one instant, and
what it writes takes effect together or not at all. Transactions race: a commit that finds a row at another version than
this run of the body has read writes nothing, and the body runs again (docs/decisions/0011). A row that the caller
passed in at a wrong version would be rejected forever, so that is a Conflict at once, as it is in SQLite (REG-1).
"""

from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from argosy.base.backends.redis.connection import MESSAGES_MAX, RedisConnection
from argosy.base.backends.redis.mux import CALL_TIMEOUT_S, RedisMux
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Gone, Invalid, Unavailable
from argosy.base.retry import Backoff, RetryBudget
from argosy.registry.backends import redis_schema
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_commit import REMOVING, AnyWrite, Cell, CommitEncoder, commit_error
from argosy.registry.backends.redis_dump import dump_items, load_items
from argosy.registry.backends.redis_keys import RegistryKeys, key_of
from argosy.registry.backends.redis_queries import ReadEncoder
from argosy.registry.backends.redis_schema import SCHEMA_VERSION, STEPS, RedisMigration
from argosy.registry.backends.redis_scripts import CallBatcher, describe_tables, script
from argosy.registry.ports import Change, DumpItem
from argosy.registry.table import Table
from argosy.registry.tables import TABLES
from argosy.registry.transaction import ATTEMPTS_MAX, Commit, CommitResult, Find, Get, Read, Transaction

T = TypeVar("T")

CLIENT_NAME = "argosy-registry"  # in CLIENT LIST
# Without a pause the losers run in step and lose again.
RACE_PAUSE_S = 0.0005  # mean of the pause after the first lost race; each further loss doubles it
RACE_PAUSE_S_MAX = 0.02  # about what a competing transaction that has just started needs to finish

# Entries arrive at once; the wait only bounds how long a trimmed stream goes unnoticed.
BLOCK_S = 2.0  # how long one read of the stream waits; after an empty read the watch checks its position
BATCH_MAX = 500  # changes per read
UNREACHABLE_S_MAX = 60.0  # a watch itself waits this long for the server; after that its caller decides
# The ceiling keeps the watchers of a fleet from flooding a server that returns.
RECONNECT_BACKOFF = Backoff(first_s=0.05, ceiling_s=2.0, attempts_max=10_000)  # the time is what bounds it
_WATCH = script("watch")


class _LostRace(Exception):
    """A row has changed since this run of the body read it."""


class RedisRegistry:
    """A `RegistryStore` on a server. Created by `open`."""

    def __init__(
        self, mux: RedisMux, keys: RegistryKeys, tables: Sequence[Table[Any]], *, clock: Clock, random: Random
    ) -> None:
        self._mux = mux
        self._keys = keys
        self._clock = clock
        self._random = random
        self._codecs = {table.name: TableCodec(table) for table in tables}
        self._read_encoder = ReadEncoder(keys, self._codecs)
        self._commit_encoder = CommitEncoder(keys, self._codecs)
        # Only keys of fixed name are declared: which others a script touches depends on what is stored (see index.lua).
        shared = (keys.meta, keys.events, keys.logs, keys.counters)
        commit = script("commit", described=describe_tables(keys, self._codecs.values()))
        self._reads = CallBatcher(mux, script("queries"), shared, ReadEncoder.encode_calls, ReadEncoder.decode_replies)
        self._commits = CallBatcher(mux, commit, shared, CommitEncoder.encode_calls, CommitEncoder.decode_replies)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        clock: Clock,
        random: Random,
        namespace: str = "argosy",
        tables: Sequence[Table[Any]] = TABLES,
        version: int = SCHEMA_VERSION,
        steps: Sequence[RedisMigration] = STEPS,
    ) -> "RedisRegistry":
        """Opens or creates a registry. Raises `Unavailable` if the server is unreachable, `Conflict` if a newer argosy
        wrote the registry."""
        parsed, keys = parse_redis_url(url), RegistryKeys(namespace)

        # On every new connection: it may lead to another server than the one before, with other data.
        async def greet(connection: RedisConnection) -> None:
            await redis_schema.greet(connection, keys, parsed.name, version=version, steps=steps)

        mux = RedisMux(
            parsed,
            clock=clock,
            random=random,
            client_name=CLIENT_NAME,
            permissions="all commands on the registry's keys",
            on_connect=greet,
        )
        # Connects now, so that a wrong URL or version fails at start and not with the first request.
        await mux.connection()
        return cls(mux, keys, tables, clock=clock, random=random)

    async def run(self, transaction: Transaction[T]) -> T:
        for losses in range(ATTEMPTS_MAX):
            try:
                return await _TransactionRun(self).run(transaction)
            except _LostRace:
                # Full jitter: two transactions that raced with equal pauses would meet again.
                longest = min(RACE_PAUSE_S * 2 ** (losses + 1), RACE_PAUSE_S_MAX)
                await self._clock.sleep(self._random.uniform(0, longest))
        raise Unavailable(f"the transaction lost {ATTEMPTS_MAX} races for its rows at {self._mux.name}: retry later")

    async def read_many(self, reads: Sequence[Read]) -> tuple[int, list[Any]]:
        """The server's time, and the results as of that instant."""
        # All checks of the arguments are made before anything is sent, so that an invalid read costs no round trip.
        encoded = [self._read_encoder.encode(read) for read in reads]
        args: list[Any] = [len(encoded)]
        for each, _ in encoded:
            args += each
        now, parts = await self._reads.call(args)
        return now, [decode(part, now) for (_, decode), part in zip(encoded, parts, strict=True)]

    async def commit(self, writes: Sequence[AnyWrite], read: Mapping[Cell, int] = MappingProxyType({})) -> Any:
        """The script's reply. `read`: versions of rows that were read by key; they must be unchanged."""
        # A server that is out of memory rejects a whole call at its first growing write. Alone, a commit that only
        # removes still goes through, and frees memory.
        is_removing = all(isinstance(write, REMOVING) for write in writes)
        return await self._commits.call(self._commit_encoder.encode(writes, read), is_alone=is_removing)

    async def revision(self) -> int:
        return int(await self._mux.call("HGET", self._keys.meta, "revision") or 0)

    def dump(self) -> AsyncIterator[DumpItem]:
        """Everything, page by page; each page is as of one instant."""
        return dump_items(self._mux, self._keys, self._codecs)

    async def load(self, items: AsyncIterable[DumpItem]) -> int:
        """Fills an empty registry with a dump, and returns the number of items."""
        return await load_items(self._mux, self._keys, self._codecs, self.commit, items)

    async def close(self) -> None:
        await self._mux.close()

    # -- changes and notifications ----------------------------------------------------------------------------------

    async def watch(self, after: int, *, rows_of: Collection[Table[Any]] = ()) -> AsyncIterator[Change]:
        """All changes after a revision; raises `Gone` when some may be missing.

        The id of an entry in the stream is its revision, so a watcher's position is a number and a missing change is a
        gap. While the server is unreachable the watch waits, up to UNREACHABLE_S_MAX; when it is back, the watch checks
        whether its position is still valid.
        """
        tables = {table.name: table for table in rows_of}
        # A blocking XREAD would delay every other call on a shared connection; it also needs a longer timeout than they
        # do.
        reading = self._mux.sibling(call_timeout_s=BLOCK_S + CALL_TIMEOUT_S)
        budget = self._outage_budget()
        try:
            must_check = True
            while True:
                try:
                    if must_check:
                        await self._check_position(after)
                    changes = [self._to_change(entry) for entry in await self._read_stream(reading, after)]
                    if tables:
                        changes = await self._add_rows(tables, changes)
                # A watch outlives short outages: its position is still valid afterwards, and listing again costs far
                # more.
                except Unavailable as error:
                    # The store was closed, so no retry can succeed.
                    if reading.is_closed:
                        raise
                    # The server may have been replaced by one that lost changes, or has a history of its own.
                    must_check = True
                    await budget.spend(error)
                    continue
                budget.reset()
                must_check = not changes  # a trimmed stream and a quiet one look the same to XREAD
                for change in changes:
                    # The stream is trimmed from its oldest end; entries lost between two reads show as a gap in the
                    # revisions.
                    if change.revision != after + 1:
                        raise _gone_error(after)
                    after = change.revision
                    yield change
        finally:
            await reading.close()

    def _outage_budget(self) -> RetryBudget:
        return RetryBudget(RECONNECT_BACKOFF, clock=self._clock, random=self._random, elapsed_s_max=UNREACHABLE_S_MAX)

    async def _check_position(self, after: int) -> None:
        verdict, _ = await self._mux.script(_WATCH, (self._keys.meta, self._keys.events), (str(after),))
        if verdict != b"ok":
            raise _gone_error(after)

    async def _read_stream(self, reading: RedisMux, after: int) -> list[Any]:
        block, count = str(int(BLOCK_S * 1000)), str(BATCH_MAX)
        reply = await reading.call("XREAD", "COUNT", count, "BLOCK", block, "STREAMS", self._keys.events, f"{after}-0")
        return reply[0][1] if reply else []

    def _to_change(self, entry: Any) -> Change:
        entry_id, (_, text) = entry
        name, _, member = text[1:].partition(b" ")
        table = name.decode()
        # A table that this process does not know belongs to a newer argosy; its changes still advance the position.
        key = self._codecs[table].key_of(member) if table in self._codecs else key_of(member)
        return Change(int(entry_id.partition(b"-")[0]), table, key, text.startswith(b"-"))

    async def _add_rows(self, tables: Mapping[str, Table[Any]], changes: list[Change]) -> list[Change]:
        """The same changes, those of `tables` with their rows: one more call for all of them."""
        reads = {
            (change.table, change.key): Get(tables[change.table], change.key)
            for change in changes
            if change.table in tables and not change.is_deleted
        }
        if not reads:
            return changes
        # The rows as they are now, which may be newer than the change. A later change follows for each of those.
        _, results = await self.read_many(list(reads.values()))
        rows = dict(zip(reads, results, strict=True))
        return [
            change if change.is_deleted else replace(change, row=rows.get((change.table, change.key)))
            for change in changes
        ]

    async def listen(self, channel: str) -> AsyncIterator[str]:
        """Messages from the moment this is first awaited. Messages sent while the server was unreachable are lost."""
        key = self._keys.channel(channel)
        # A connection in subscribe mode accepts no other commands.
        listening = self._mux.sibling(call_timeout_s=CALL_TIMEOUT_S)
        budget = self._outage_budget()
        try:
            while True:
                try:
                    connection = await listening.subscribe(key)
                except Unavailable as error:
                    if listening.is_closed:
                        raise
                    await budget.spend(error)
                    continue
                budget.reset()
                assert connection.messages is not None
                while (message := await connection.messages.get()) is not None:
                    yield message[2].decode()
                # The backlog of messages is bounded. A listener that has lost some must know, or it would serve stale
                # data.
                if connection.is_behind:
                    raise Gone(f"a listener of {key!r} fell {MESSAGES_MAX} messages behind: read the tables again")
        finally:
            await listening.close()


class _TransactionRun:
    """One run of a transaction's body, and what it has read so far."""

    def __init__(self, store: RedisRegistry) -> None:
        self._store = store
        self._read: dict[Cell, int] = {}  # versions of rows read by key; 0: there was none
        self._found: list[tuple[Table[Any], list[Any]]] = []

    async def run(self, transaction: Transaction[T]) -> T:
        """Runs the body to its end. An error of a read or of the commit is raised inside the body, where it was
        yielded, so that the body can handle it."""
        body = transaction.begin()
        is_committed = False
        try:
            step = next(body)
            while True:
                assert not is_committed, "a transaction ends with its commit: read before it"
                try:
                    reply: Any
                    if isinstance(step, Commit):
                        reply = await self._commit(step)
                        is_committed = True
                    else:
                        reply = await self._answer(step)
                # Only these are the body's to handle. A lost race ends this run, and an unreachable server ends the
                # call.
                except (Conflict, Invalid) as error:
                    step = body.throw(error)
                else:
                    step = body.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            body.close()

    async def _answer(self, reads: tuple[Read, ...]) -> tuple[Any, ...]:
        _, results = await self._store.read_many(reads)
        for read, result in zip(reads, results, strict=True):
            if isinstance(read, Get):
                # The first version counts: a row that changed between two reads must fail the commit.
                self._read.setdefault((read.table.name, read.key), 0 if result is None else result.version)
            elif isinstance(read, Find):
                self._found.append((read.table, result))
        return tuple(results)

    async def _commit(self, commit: Commit) -> CommitResult:
        # Nothing to write, so nothing to check: reads yielded together are consistent as they are.
        if not commit.writes:
            return CommitResult(await self._store.revision())
        outcome, *details = await self._store.commit(commit.writes, self._read)
        if outcome == b"done":
            revision, versions, taken, counts = details
            return CommitResult(
                int(revision), tuple(versions), tuple(map(tuple, taken)), tuple((count, left) for count, left in counts)
            )
        number, detail = details
        if number < 1:
            raise _LostRace  # a row that was read and is not written
        write = commit.writes[number - 1]
        # The row changed since this run read it: run again. Otherwise the caller passed in the version, and would fail
        # forever.
        if outcome == b"stale":
            version = self._version_read((write.table.name, write.table.key_of(write.row)))
            if version is not None and version != detail:
                raise _LostRace
        raise commit_error(write, outcome.decode(), detail)

    def _version_read(self, cell: Cell) -> int | None:
        """The version at which this run has read a row; None if it has not."""
        if cell in self._read:
            return self._read[cell]
        name, key = cell
        for table, rows in self._found:
            for row in rows if table.name == name else ():
                if table.key_of(row) == key:
                    return int(row.version)
        return None


def _gone_error(after: int) -> Gone:
    return Gone(f"changes after revision {after} are no longer stored, or it is of another registry: list again")
