"""Reads the schema version of a registry without opening it: opening would create a missing one and migrate an old
one."""

import asyncio
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from argosy.base.clock import Clock, Random
from argosy.registry import migrations
from argosy.registry.backends.sqlite_setup import connect, path_of, to_argosy_error


@dataclass(frozen=True)
class Schema:
    """The schema version of a store (None: there is no registry), the current one, and the steps between them."""

    found: int | None
    wanted: int
    steps: tuple[tuple[int, str], ...] = ()

    @property
    def is_old(self) -> bool:
        return self.found is not None and self.found < self.wanted


async def inspect(url: str, *, clock: Clock, random: Random, namespace: str) -> Schema:
    """The versions of the registry that the URL names."""
    if url.startswith("sqlite:"):
        path = path_of(url)
        found = await asyncio.to_thread(_sqlite_version, path)
        pending = [(step.number, step.why) for step in migrations.MIGRATIONS]
        return _schema(found, migrations.SCHEMA_VERSION, pending)
    # Imported here, because the client for Redis is an optional dependency.
    from argosy.registry.backends import redis_schema

    found = await _redis_version(url, clock, random, namespace)
    return _schema(found, redis_schema.SCHEMA_VERSION, [(step.number, step.why) for step in redis_schema.STEPS])


def _schema(found: int | None, wanted: int, steps: list[tuple[int, str]]) -> Schema:
    pending = () if found is None else tuple(step for step in steps if found < step[0] <= wanted)
    return Schema(found, wanted, pending)


def _sqlite_version(path: str) -> int | None:
    # SQLite would create the file when it connects.
    if not Path(path).exists():
        return None
    try:
        connection = connect(path)
        try:
            return _read_version(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise to_argosy_error(error, path) from error


def _read_version(connection: sqlite3.Connection) -> int | None:
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = '_meta'").fetchone()
    if known is None:
        return None
    row = connection.execute("SELECT value FROM _meta WHERE name = 'schema_version'").fetchone()
    return None if row is None else int(row[0])


async def _redis_version(url: str, clock: Clock, random: Random, namespace: str) -> int | None:
    from argosy.base.backends.redis.mux import RedisMux
    from argosy.base.backends.redis.url import parse_redis_url
    from argosy.registry.backends.redis_keys import RegistryKeys

    # Without `on_connect`, which would create or migrate the registry.
    mux = RedisMux(parse_redis_url(url), clock=clock, random=random)
    try:
        schema = await mux.call("HGET", RegistryKeys(namespace).meta, "schema")
        return None if schema is None else int(schema)
    finally:
        await mux.close()
