"""Which layout a registry in Redis has, and how an older one is led to the present one.

The first to come writes the version; whoever finds a newer one goes away without touching anything. An older one is
migrated step by step by whoever holds the migration lease, each step being a script of its own that ends by counting
the version up; so a crash leaves the registry at a version and never between two.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from argosy.base.backends.redis.connection import RedisConnection
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.registry.backends.redis_keys import Keys
from argosy.registry.backends.redis_scripts import script

SCHEMA_VERSION = 1
HALF_LOADED = "half_loaded"  # a field of _meta while an import is under way
SERVER_MIN = 7  # older ones cannot tell when a key ends
LEASE_MS = 60_000  # longer than any step: a step that takes longer would be begun by two
_HELLO = script("hello")
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"


@dataclass(frozen=True)
class Step:
    """Leads a registry from version `number - 1` to `number`. Run again, it does no harm."""

    number: int
    why: str
    run: Callable[[RedisConnection, Keys], Awaitable[None]]


STEPS: tuple[Step, ...] = ()


async def greet(
    connection: RedisConnection, keys: Keys, name: str, *, version: int = SCHEMA_VERSION, steps: Sequence[Step] = STEPS
) -> None:
    """Done on every new connection: the registry is made, known to be of this version, or migrated."""
    hello = ("EVAL", _HELLO.text, "1", keys.meta, str(version), HALF_LOADED)
    schema, is_half_loaded, server = await connection.send(*hello)
    found = int(schema)
    if int(server or SERVER_MIN) < SERVER_MIN:
        raise Invalid(f"redis at {name} is of version {int(server)}: the registry needs Redis {SERVER_MIN} or Valkey")
    if is_half_loaded:
        raise Conflict(
            f"the registry at {name} is half imported: delete the keys that begin with {keys.prefix} and import again"
        )
    if found > version:
        raise Conflict(
            f"the registry at {name} has schema version {found} and this argosy knows {version}: "
            f"use the argosy that wrote it, or a newer one"
        )
    if found < version:
        await _migrate(connection, keys, name, found, version, steps)


async def _migrate(
    connection: RedisConnection, keys: Keys, name: str, found: int, version: int, steps: Sequence[Step]
) -> None:
    chosen = [step for step in steps if found < step.number <= version]
    if [step.number for step in chosen] != list(range(found + 1, version + 1)):
        raise Invalid(
            f"the registry at {name} has schema version {found}, and there is no way from there to {version}: "
            f"export it with the argosy that wrote it, and import it into a new one"
        )
    token = secrets.token_hex(8)
    if await connection.send("SET", keys.migrating, token, "NX", "PX", str(LEASE_MS)) is None:
        raise Unavailable(f"another process is migrating the registry at {name}: retry in a while")
    for step in chosen:
        await step.run(connection, keys)
        await connection.send("HSET", keys.meta, "schema", str(step.number))
    await connection.send("EVAL", _RELEASE, "1", keys.migrating, token)
