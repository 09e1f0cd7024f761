"""The keys of the registry in Redis: the one module that spells them, for the code, the scripts and the generated page.

All keys share the hash tag `{<namespace>}`, so in a Redis Cluster they are on one node and one script may access them
all. Parts of keys are percent-encoded where they would be ambiguous: `%` and `:` everywhere, and a leading `_`, because
names that begin with `_` are the registry's own. So an alias may be called `_index`.

Inside indexes and hashes a row is identified by its *member*: the plain text of its key, with a zero byte between the
parts of a longer key. Members sort as the keys do, so that rows that are equal in order are sorted by key, as on every
backend (REG-1). Rows that are single values are never listed in order, and there may be a million of them; their member
is the end of the Redis key, in which a UUID takes 17 bytes instead of 36.
"""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from argosy.base.errors import Invalid
from argosy.base.key_docs import KeyDoc
from argosy.registry.table import Table, TableIndex, TableLayout
from argosy.registry.tables import (
    ADMIN_LOGIN_RATE,
    CANARY_RUNS_LOG,
    CDC_OVERFLOW_LOG,
    CDC_SEQUENCE,
    REVOKED_CHANNEL,
    SEARCH_UI_RATE,
    TABLES,
    TASK_SEQUENCE,
)

SEPARATOR = b"\0"
ESCAPED_SEPARATOR = b"\0\xff"  # a zero byte inside a part; 0xff is in no UTF-8 text, so this is unambiguous
# Far above any name in use. It bounds what one caller can make the server store for a name that comes from a request.
NAME_BYTES_MAX = 1024  # of a log's, counter's or channel's name


def escape_key_part(part: str) -> str:
    """One part of a key's name. `escape_key_part` in index.lua does the same."""
    # Nearly no key needs it, and a test for two characters is much faster than replacing them.
    if "%" in part or ":" in part:
        part = part.replace("%", "%25").replace(":", "%3A")
    return "%5F" + part[1:] if part.startswith("_") else part


def encode_values(values: Sequence[bytes]) -> bytes:
    """The values of an index lookup: the end of the index's key, or the field in the hash of a unique index."""
    return b"".join(b":" + _escape_bytes(value) for value in values)


def _escape_bytes(part: bytes) -> bytes:
    part = part.replace(b"%", b"%25").replace(b":", b"%3A")
    return b"%5F" + part[1:] if part.startswith(b"_") else part


# Lower case only: an upper-case UUID has the same bytes and would come back as another text.
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Distinguishes the 16 raw bytes from a text. Their length is known, because they may contain a colon themselves.
_UUID_MARK = 0xFE  # begins no UTF-8 text


def uuid_bytes(text: str) -> bytes | None:
    """The 16 bytes of a UUID in its usual spelling, else None: any other text must come back as it was."""
    return bytes.fromhex(text.replace("-", "")) if len(text) == 36 and _UUID.fullmatch(text) else None


def uuid_text(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def value_member_of(key: tuple[str, ...]) -> bytes:
    """The end of the Redis key of a row that is a single value."""
    parts = []
    for part in key:
        raw = uuid_bytes(part)
        parts.append(escape_key_part(part).encode() if raw is None else bytes([_UUID_MARK]) + raw)
    return b":".join(parts)


def value_key_of(member: bytes) -> tuple[str, ...]:
    parts, at = [], 0
    while at < len(member) + 1:
        if member[at : at + 1] == bytes([_UUID_MARK]):
            end = at + 17
            parts.append(uuid_text(member[at + 1 : end]))
        else:
            # Escaped texts contain no colon, so the next one separates two parts.
            end = member.find(b":", at) if b":" in member[at:] else len(member)
            parts.append(unquote(member[at:end].decode()))
        at = end + 1
    return tuple(parts)


def member_of(key: tuple[str, ...]) -> bytes:
    """A row's name inside indexes, hashes and events."""
    # Most tables have a key of one part, whose member is the text itself: it sorts, and shows in redis-cli, as it is.
    if len(key) == 1 and "\0" not in key[0]:
        return key[0].encode()
    return SEPARATOR.join(part.encode().replace(SEPARATOR, ESCAPED_SEPARATOR) for part in key)


def key_of(member: bytes) -> tuple[str, ...]:
    if SEPARATOR not in member:
        return (member.decode(),)
    # 0xff stands for the escaped zero while the rest is split at plain zeros; no UTF-8 text contains it.
    escaped = member.replace(ESCAPED_SEPARATOR, b"\xff")
    return tuple(part.replace(b"\xff", SEPARATOR).decode() for part in escaped.split(SEPARATOR))


class RegistryKeys:
    """The keys of one registry."""

    def __init__(self, namespace: str) -> None:
        if not namespace.isascii() or not namespace or not all(c.isalnum() or c in "-_." for c in namespace):
            # A brace or a colon would end the hash tag early, or give two registries the same one.
            raise Invalid(f"a namespace has letters, digits, '-', '_' and '.' only, not {namespace!r}")
        self.prefix = f"{{{namespace}}}:"
        self.meta = self.prefix + "_meta"
        self.events = self.prefix + "_events"
        self.logs = self.prefix + "_logs"
        self.counters = self.prefix + "_counters"
        self.migrating = self.prefix + "_migrating"

    def table(self, table: Table[Any]) -> str:
        """The key of a packed table's hash; for other layouts, the prefix of the keys of all rows."""
        return self.prefix + table.name

    def row(self, table: Table[Any], key: tuple[str, ...]) -> str | bytes:
        """The key that contains a row, alone or with others."""
        if table.layout is TableLayout.PACKED:
            return self.table(table)
        if table.layout is TableLayout.VALUE:
            return f"{self.table(table)}:".encode() + value_member_of(key)
        parts = key[:1] if table.layout is TableLayout.FAMILY else key
        return f"{self.table(table)}:{':'.join(map(escape_key_part, parts))}"

    def listing(self, table: Table[Any]) -> str:
        """The index that lists a whole table: its rows, or its families."""
        return f"{self.table(table)}:_index"

    def index(self, table: Table[Any], index: TableIndex) -> str:
        """The prefix of an index's keys; the values of the lookup follow, if it has any."""
        name = self.listing(table)
        # The index that lists the whole table has the short key `_index`, without a name.
        return name if not index.by and not index.is_unique else f"{name}:{index.name}"

    def log(self, name: str) -> str:
        return self.prefix + _check_name(name)

    def counter(self, name: str) -> str:
        return self.prefix + _check_name(name)

    def channel(self, name: str) -> str:
        return self.prefix + _check_name(name)


# Logs, counters and tables share one key space, and a counter named like a row would overwrite it.
_RESERVED = tuple(f"{table.name}:" for table in TABLES)
_TABLE_NAMES = frozenset(table.name for table in TABLES)


def _check_name(name: str) -> str:
    """Logs and counters have the names of the design document, which must not collide with the tables' keys."""
    is_short = isinstance(name, str) and 0 < len(name.encode()) <= NAME_BYTES_MAX
    if not is_short or name.startswith(("_", *_RESERVED)) or name in _TABLE_NAMES:
        raise Invalid(
            f"a log, counter or channel has a name of 1 to {NAME_BYTES_MAX} bytes that begins neither with '_' nor "
            f"with a table's name and ':', not {name!r:.80}"
        )
    return name


# -- the generated page ---------------------------------------------------------------------------------------


def _table_docs(table: Table[Any]) -> list[KeyDoc]:
    key = ":".join(f"<{name}>" for name in table.key)
    columns = ", ".join(column.name for column in table.columns if column.name not in table.key)
    if table.layout is TableLayout.PACKED:
        docs = [KeyDoc(table.name, "hash", f"{key} → version, then {columns or 'nothing'} as msgpack", table.why)]
    elif table.layout is TableLayout.FAMILY:
        name = f"{table.name}:<{table.key[0]}>"
        docs = [
            KeyDoc(name, "hash", f"<{table.key[1]}> → version, then {columns} as msgpack", table.why),
            KeyDoc(f"{table.name}:_index", "set", f"every {table.key[0]}", "lists the table without a scan"),
        ]
    elif table.layout is TableLayout.VALUE:
        columns = ", ".join(column.name for column in table.columns if column.name not in (*table.key, table.expires))
        content = f"version, then {columns or 'nothing'} as msgpack; expires"
        docs = [KeyDoc(f"{table.name}:{key}", "string", content, f"{table.why}; a UUID in the key is 17 bytes")]
    else:
        expires = f"; expires at {table.expires}" if table.expires else ""
        docs = [
            KeyDoc(f"{table.name}:{key}", "hash", f"version, and a field for each of {columns}{expires}", table.why),
            KeyDoc(
                f"{table.name}:{key}:_long",
                "string",
                "columns longer than a listpack takes, as msgpack",
                "keeps the hash of the row small and fast",
            ),
        ]
    return docs + [doc for index in _indexes(table) for doc in _index_docs(table, index)]


def _indexes(table: Table[Any]) -> list[TableIndex]:
    if table.layout in (TableLayout.PACKED, TableLayout.FAMILY):
        return [index for index in table.indexes if index.is_unique]
    return list(stored_indexes(table))


def stored_indexes(table: Table[Any]) -> tuple[TableIndex, ...]:
    """The indexes of a table of rows or values: those declared, and one that lists the table if none does."""
    if any(not index.by and not index.is_unique for index in table.indexes):
        return table.indexes
    return (TableIndex("all", order=table.expires), *table.indexes)


def _index_docs(table: Table[Any], index: TableIndex) -> list[KeyDoc]:
    name = f"{table.name}:_index"
    if index.is_unique:
        return [
            KeyDoc(
                f"{name}:{index.name}",
                "hash",
                f"{', '.join(index.by)} → the row that has it",
                "at most one row has a value",
            )
        ]
    if index.by:
        name += f":{index.name}:{':'.join(f'<{column}>' for column in index.by)}"
    order = f"scored by {index.order}" if index.order else "scored 0"
    return [
        KeyDoc(name, "sorted set", f"keys of rows, {order}", f"index {index.name!r}, until it is split into chunks"),
        KeyDoc(
            f"{name}:_<n>",
            "sorted set",
            "as above, for one range of the order",
            "one chunk of the index, small enough for a listpack, which takes half the memory",
        ),
        KeyDoc(
            f"{name}:_chunks", "sorted set", "n, scored by the lowest order in chunk n", "finds the chunk of an order"
        ),
    ]


KEY_DOCS = (
    KeyDoc("_meta", "hash", "schema, revision, floor, run_id, chunks",
           "schema version, number of rows written, first revision since which all changes are known, run id of the "
           "server when last seen, number of the last index chunk"),
    KeyDoc("_events", "stream", "one entry per row written: its id is the revision, c is + or -, table and key",
           "the change feed that watchers read, trimmed to about EVENTS_MAX"),
    KeyDoc("_logs", "hash", "log → bytes:dropped", "lists the logs and their exact sizes"),
    KeyDoc("_counters", "sorted set", "counters, with common prefixes as one byte, scored by their expiry",
           "lists the counters; split into chunks like an index"),
    KeyDoc("_migrating", "string", "a token", "lock: one process at a time migrates an old registry"),
    *(doc for table in TABLES for doc in _table_docs(table)),
    KeyDoc(CANARY_RUNS_LOG, "list", "runs, newest last", "the last runs of a canary"),
    KeyDoc(CDC_OVERFLOW_LOG, "list", "events, newest last", "changes that a sink has not accepted yet"),
    KeyDoc(CDC_SEQUENCE, "string", "a number", "sequence number of the changes of an index"),
    KeyDoc(TASK_SEQUENCE, "string", "a number", "sequence number of tasks"),
    KeyDoc(SEARCH_UI_RATE, "string", "a number; expires", "requests from one address"),
    KeyDoc(ADMIN_LOGIN_RATE, "string", "a number; expires", "login attempts from one address"),
    KeyDoc(REVOKED_CHANNEL, "channel", "the id of a session", "removes a revoked session from all caches"),
)  # fmt: skip
