"""Dump and load of a registry in Redis: everything as plain items (`ports.DumpItem`), and back.

Indexes list everything, so no SCAN is needed. Each page is as of one instant; between two pages the registry may
change.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from argosy.base.backends.redis.mux import RedisMux
from argosy.base.errors import Conflict, Invalid
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_commit import AnyWrite, BeginLog, LoadRow, SetCounter, commit_error
from argosy.registry.backends.redis_keys import RegistryKeys, member_of
from argosy.registry.backends.redis_schema import HALF_LOADED
from argosy.registry.backends.redis_scripts import script
from argosy.registry.ports import DumpItem
from argosy.registry.table import TableLayout
from argosy.registry.transaction import Append

_PAGE = script("page")
# A page is one script, and a script blocks the server for all clients.
PAGE = 500  # entries of an index, or of a log, per call


async def dump_items(mux: RedisMux, keys: RegistryKeys, codecs: Mapping[str, TableCodec]) -> AsyncIterator[DumpItem]:
    for codec in codecs.values():
        async for row in _rows(mux, keys, codec):
            yield codec.table.name, {**codec.table.values(row), "version": row.version}
    for name, sizes in _pairs(await mux.call("HGETALL", keys.logs)):
        async for item in _log(mux, keys, name.decode(), int(sizes.partition(b":")[2])):
            yield item
    async for page in _pages(mux, keys, "counters", keys.counters, keys.prefix, ""):
        for name, value, expiry in page:
            # A counter without expiry has the score +inf, so that it sorts behind those that expire.
            expires_at = None if expiry == b"inf" else int(expiry)
            yield "counter", {"name": name.decode(), "value": int(value), "expires_at": expires_at}


async def _rows(mux: RedisMux, keys: RegistryKeys, codec: TableCodec) -> AsyncIterator[Any]:
    table = codec.table
    if table.layout is TableLayout.PACKED:
        # Sorted, so that two exports of one registry are equal, whatever the order inside a hash.
        for member, raw in sorted(_pairs(await mux.call("HGETALL", keys.table(table)))):
            yield codec.from_packed(member, raw)
    elif table.layout is TableLayout.FAMILY:
        for family in sorted(await mux.call("SMEMBERS", keys.listing(table))):
            raw_pairs = _pairs(await mux.call("HGETALL", keys.row(table, (family.decode(), ""))))
            for field, raw in sorted(raw_pairs):
                yield codec.from_packed(member_of((family.decode(), field.decode())), raw)
    else:
        is_row = table.layout is TableLayout.ROW
        # Every table of this layout has one index without columns, which lists all its rows (`stored_indexes`).
        order = next(index.order for index in codec.indexes if not index.by)
        ordered = codec.fields[order] if is_row and order else ""
        kind = "rows" if is_row else "values"
        async for page in _pages(mux, keys, kind, keys.listing(table), keys.table(table), ordered):
            for member, *content in page:
                yield codec.from_fields(member, *content) if is_row else codec.from_packed(member, *content)


async def _pages(mux: RedisMux, keys: RegistryKeys, *what: str) -> AsyncIterator[list[Any]]:
    """Entries of an index, with the rows or counters that they list."""
    # A page continues after an order and a member, not at an offset: entries come and go between two pages.
    place = ["-inf", ""]
    while place:
        page, place = await mux.script(_PAGE, (keys.meta,), (*what, *place, str(PAGE)))
        yield page


async def _log(mux: RedisMux, keys: RegistryKeys, name: str, dropped: int) -> AsyncIterator[DumpItem]:
    at, is_empty = 0, True
    while entries := await mux.call("LRANGE", keys.log(name), str(at), str(at + PAGE - 1)):
        for payload in entries:
            yield "log", {"name": name, "payload": payload, "dropped": dropped}
        at, is_empty = at + len(entries), False
    # An empty log is exported for its number of dropped entries, which must survive the move to another store.
    if is_empty and dropped:
        yield "log", {"name": name, "payload": None, "dropped": dropped}


def _pairs(flat: list[bytes]) -> list[tuple[bytes, bytes]]:
    return [(flat[n], flat[n + 1]) for n in range(0, len(flat), 2)]


async def load_items(
    mux: RedisMux,
    keys: RegistryKeys,
    codecs: Mapping[str, TableCodec],
    commit: Callable[[Sequence[AnyWrite]], Awaitable[Any]],
    items: AsyncIterable[DumpItem],
) -> int:
    """Stores items as they are in an empty registry. Until it is done the registry is marked as half imported, and
    cannot be opened."""
    if not await _is_empty(mux, keys, codecs):
        raise Conflict("an import needs an empty registry, and this one has rows: name a new one")
    # Before the first row: a crash at any moment after this leaves a registry that no process opens.
    await mux.call("HSET", keys.meta, HALF_LOADED, "1")
    count = 0
    chunk: list[AnyWrite] = []
    async for kind, values in items:
        count += 1
        chunk += _to_writes(codecs, kind, values)
        if len(chunk) >= PAGE:
            await _commit_chunk(commit, chunk)
            chunk = []
    if chunk:
        await _commit_chunk(commit, chunk)
    await mux.call("HDEL", keys.meta, HALF_LOADED)
    return count


async def _is_empty(mux: RedisMux, keys: RegistryKeys, codecs: Mapping[str, TableCodec]) -> bool:
    listings = [
        keys.table(codec.table) if codec.table.layout is TableLayout.PACKED else keys.listing(codec.table)
        for codec in codecs.values()
    ]
    chunks = [f"{listing}:_chunks" for listing in listings]
    existing = await mux.call("EXISTS", *listings, *chunks, keys.logs, keys.counters)
    return int(existing) == 0


def _to_writes(codecs: Mapping[str, TableCodec], kind: str, values: Mapping[str, Any]) -> list[AnyWrite]:
    try:
        if kind == "log":
            entry = [] if values["payload"] is None else [Append(values["name"], values["payload"])]
            return [BeginLog(values["name"], values["dropped"]), *entry]
        if kind == "counter":
            return [SetCounter(values["name"], values["value"], values["expires_at"])]
        if kind not in codecs:
            raise Invalid(f"there is no table {kind!r:.80}: this export is of a newer argosy")
        table = codecs[kind].table
        return [LoadRow(table, table.row(**values))]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Invalid(f"this {kind!r:.80} cannot be imported: {error!r}") from error


async def _commit_chunk(commit: Callable[[Sequence[AnyWrite]], Awaitable[Any]], chunk: list[AnyWrite]) -> None:
    outcome, *details = await commit(chunk)
    if outcome != b"done":
        number, detail = details
        raise commit_error(chunk[number - 1], outcome.decode(), detail)
