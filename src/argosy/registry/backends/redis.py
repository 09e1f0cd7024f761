"""The registry in Redis or Valkey: for fleets of many processes.

A program asks through one script and commits through another, so what it asks together is of one instant, and what it
writes happens together or not at all. Programs race: a commit that finds a row elsewhere than this run of the program
saw it does nothing, and the program is run again. A row that the program brought along at a wrong version would be
refused for ever, so that is a Conflict at once, as it is in SQLite (REG-1).
"""

from collections.abc import AsyncIterable, AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from argosy.base.backends.redis.connection import Arg, RedisConnection
from argosy.base.backends.redis.mux import RedisMux
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.registry.backends import redis_schema
from argosy.registry.backends.redis_ask import Questions
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_commit import REMOVING, AnyWrite, Cell, Writes, refusal
from argosy.registry.backends.redis_dump import dumped, load
from argosy.registry.backends.redis_gather import Gather
from argosy.registry.backends.redis_keys import Keys
from argosy.registry.backends.redis_schema import SCHEMA_VERSION, STEPS, Step
from argosy.registry.backends.redis_scripts import described, script
from argosy.registry.backends.redis_watch import heard, watched
from argosy.registry.ports import Change
from argosy.registry.table import Table
from argosy.registry.tables import TABLES
from argosy.registry.transaction import ATTEMPTS_MAX, Commit, CommitResult, Find, Get, Read, Transaction

T = TypeVar("T")

CLIENT_NAME = "argosy-registry"  # in CLIENT LIST
RACE_PAUSE_S = 0.0005  # the mean of the first pause after a lost race; each loss doubles it
RACE_PAUSE_S_MAX = 0.02  # about what a rival that was just begun needs to be done


class _LostRace(Exception):
    """A row has moved since this run of the program read it."""


class RedisRegistry:
    """A `RegistryStore` on a server. `open` it; the constructor is for `open` alone."""

    def __init__(
        self, mux: RedisMux, keys: Keys, tables: Sequence[Table[Any]], *, clock: Clock, random: Random
    ) -> None:
        self._mux = mux
        self._keys = keys
        self._clock = clock
        self._random = random
        self._codecs = {table.name: TableCodec(table) for table in tables}
        self._questions = Questions(keys, self._codecs)
        self._writes = Writes(keys, self._codecs)
        shared = (keys.meta, keys.events, keys.logs, keys.counters)
        committing = script("commit", described=described(keys, self._codecs.values()))
        self._asking = Gather(mux, script("ask"), shared, Questions.joined, Questions.parted)
        self._committing = Gather(mux, committing, shared, Writes.joined, Writes.parted)

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
        steps: Sequence[Step] = STEPS,
    ) -> "RedisRegistry":
        """Opens or creates a registry; Unavailable if the server is away, Conflict if a newer argosy wrote it."""
        parsed, keys = parse_redis_url(url), Keys(namespace)

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
        await mux.connection()
        return cls(mux, keys, tables, clock=clock, random=random)

    async def run(self, transaction: Transaction[T]) -> T:
        for losses in range(ATTEMPTS_MAX):
            try:
                return await _Run(self).through(transaction)
            except _LostRace:
                longest = min(RACE_PAUSE_S * 2 ** (losses + 1), RACE_PAUSE_S_MAX)
                await self._clock.sleep(self._random.uniform(0, longest))
        raise Unavailable(f"the program lost {ATTEMPTS_MAX} races for its rows at {self._mux.name}: retry later")

    async def read_many(self, questions: Sequence[Read]) -> tuple[int, list[Any]]:
        """The server's time, and the answers as of that instant."""
        asked = [self._questions.asked(question) for question in questions]
        words: list[Arg] = [len(asked)]
        for each, _ in asked:
            words += each
        now, parts = await self._asking.call(words)
        return now, [answer(part, now) for (_, answer), part in zip(asked, parts, strict=True)]

    async def commit(self, writes: Sequence[AnyWrite], got: Mapping[Cell, int] = MappingProxyType({})) -> Any:
        """The script's reply. `got`: rows that were got by key and must not have moved."""
        is_removing = all(isinstance(write, REMOVING) for write in writes)
        return await self._committing.call(self._writes.args(writes, got), is_alone=is_removing)

    async def revision(self) -> int:
        return int(await self._mux.call("HGET", self._keys.meta, "revision") or 0)

    def watch(self, after: int, *, rows_of: Collection[Table[Any]] = ()) -> AsyncIterator[Change]:
        tables = {table.name: table for table in rows_of}
        add_rows = partial(self._add_rows, tables) if tables else None
        return watched(
            self._mux, self._keys, self._codecs, after, add_rows=add_rows, clock=self._clock, random=self._random
        )

    async def _add_rows(self, tables: Mapping[str, Table[Any]], changes: list[Change]) -> list[Change]:
        """The same changes, those of `tables` with their rows: one more call for all of them."""
        reads = {
            (change.table, change.key): Get(tables[change.table], change.key)
            for change in changes
            if change.table in tables and not change.is_deleted
        }
        if not reads:
            return changes
        _, found = await self.read_many(list(reads.values()))
        rows = dict(zip(reads, found, strict=True))
        return [
            change if change.is_deleted else replace(change, row=rows.get((change.table, change.key)))
            for change in changes
        ]

    def listen(self, channel: str) -> AsyncIterator[str]:
        return heard(self._mux, self._keys.channel(channel), clock=self._clock, random=self._random)

    def dump(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """All tables, logs and counters, page by page: each page is of one instant."""
        return dumped(self._mux, self._keys, self._codecs)

    async def load(self, items: AsyncIterable[tuple[str, dict[str, Any]]]) -> int:
        """Fills an empty registry with what another has dumped, and says how many items there were."""
        return await load(self._mux, self._keys, self._codecs, self.commit, items)

    async def close(self) -> None:
        await self._mux.close()


class _Run:
    """One run of a program, and what it has read so far."""

    def __init__(self, store: RedisRegistry) -> None:
        self._store = store
        self._got: dict[Cell, int] = {}  # by key; 0: there was none
        self._found: list[tuple[Table[Any], list[Any]]] = []

    async def through(self, transaction: Transaction[T]) -> T:
        """Runs a program to its end. A refusal reaches it where it asked."""
        program = transaction.begin()
        is_committed = False
        try:
            step = next(program)
            while True:
                assert not is_committed, "a program ends with its commit: ask before it"
                try:
                    reply: Any
                    if isinstance(step, Commit):
                        reply = await self._commit(step)
                        is_committed = True
                    else:
                        reply = await self._ask(step)
                except (Conflict, Invalid) as refused:
                    step = program.throw(refused)
                else:
                    step = program.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            program.close()

    async def _ask(self, questions: tuple[Read, ...]) -> tuple[Any, ...]:
        _, answers = await self._store.read_many(questions)
        for question, answer in zip(questions, answers, strict=True):
            if isinstance(question, Get):
                # A row that moved between two looks is found out by the commit, which knows the first.
                self._got.setdefault((question.table.name, question.key), 0 if answer is None else answer.version)
            elif isinstance(question, Find):
                self._found.append((question.table, answer))
        return tuple(answers)

    async def _commit(self, commit: Commit) -> CommitResult:
        if not commit.writes:
            return CommitResult(await self._store.revision())
        outcome, *details = await self._store.commit(commit.writes, self._got)
        if outcome == b"done":
            revision, versions, taken, counts = details
            return CommitResult(
                int(revision), tuple(versions), tuple(map(tuple, taken)), tuple((count, left) for count, left in counts)
            )
        number, detail = details
        if number < 1:
            raise _LostRace  # a row that was read and is not written
        write = commit.writes[number - 1]
        if outcome == b"stale":
            seen = self._seen((write.table.name, write.table.key_of(write.row)))
            if seen is not None and seen != detail:
                raise _LostRace
        raise refusal(write, outcome.decode(), detail)

    def _seen(self, cell: Cell) -> int | None:
        """The version at which this run has read a row; None if it has not."""
        if cell in self._got:
            return self._got[cell]
        name, key = cell
        for table, rows in self._found:
            for row in rows if table.name == name else ():
                if table.key_of(row) == key:
                    return int(row.version)
        return None
