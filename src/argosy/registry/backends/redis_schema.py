"""The layout version of a registry in Redis, and migration of older ones.

The first process writes the version. A process that finds a newer version leaves without changing anything. An older
registry is migrated step by step by the process that has the migration lock; each step is followed by a write of its
version, and can be repeated. So after a crash the next process continues with the step that was not finished.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from argosy.base.backends.redis.connection import RedisConnection
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.registry.backends.redis_keys import RegistryKeys
from argosy.registry.backends.redis_scripts import script

SCHEMA_VERSION = 1
HALF_LOADED = "half_loaded"  # a field of _meta while an import is under way
SERVER_MIN = 7  # the first with PEXPIRETIME
LOCK_MS = 60_000  # longer than any step: a step that takes longer would be started by two processes
_HELLO = script("hello")
# Only the lock's own token releases it: after LOCK_MS another process may have it.
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"


@dataclass(frozen=True)
class RedisMigration:
    """Migrates a registry from version `number - 1` to `number`. It can be repeated without harm."""

    number: int
    why: str
    run: Callable[[RedisConnection, RegistryKeys], Awaitable[None]]


STEPS: tuple[RedisMigration, ...] = ()


async def greet(
    connection: RedisConnection,
    keys: RegistryKeys,
    name: str,
    *,
    version: int = SCHEMA_VERSION,
    steps: Sequence[RedisMigration] = STEPS,
) -> None:
    """Called on every new connection: creates the registry, checks its version, or migrates it."""
    hello = ("EVAL", _HELLO.text, "1", keys.meta, str(version), HALF_LOADED)
    schema, is_half_loaded, server = await connection.send(*hello)
    current = int(schema)
    # Valkey reports the Redis version that it is compatible with (7.2), and a server that hides its version is trusted.
    if int(server or SERVER_MIN) < SERVER_MIN:
        raise Invalid(f"redis at {name} has version {int(server)}: the registry needs Redis {SERVER_MIN} or Valkey")
    # An import is not one transaction. Half of one would look like a complete registry with rows missing.
    if is_half_loaded:
        raise Conflict(
            f"the registry at {name} is half imported: delete the keys that begin with {keys.prefix} and import again"
        )
    # A newer layout may have columns and indexes that this process would not maintain.
    if current > version:
        raise Conflict(
            f"the registry at {name} has schema version {current} and this argosy knows {version}: "
            f"use the argosy that wrote it, or a newer one"
        )
    if current < version:
        await _migrate(connection, keys, name, current, version, steps)


async def _migrate(
    connection: RedisConnection,
    keys: RegistryKeys,
    name: str,
    current: int,
    version: int,
    steps: Sequence[RedisMigration],
) -> None:
    # Steps must be complete and in order, since each one expects the layout that the one before it left behind.
    pending = [step for step in steps if current < step.number <= version]
    if [step.number for step in pending] != list(range(current + 1, version + 1)):
        raise Invalid(
            f"the registry at {name} has schema version {current}, and there is no way from there to {version}: "
            f"export it with the argosy that wrote it, and import it into a new one"
        )
    token = secrets.token_hex(8)
    # The lock expires by itself, so that a process that dies during a migration does not block the registry for good.
    if await connection.send("SET", keys.migrating, token, "NX", "PX", str(LOCK_MS)) is None:
        raise Unavailable(f"another process is migrating the registry at {name}: retry later")
    # The version is written after each step: a crash repeats at most one step, and steps can be repeated.
    for step in pending:
        await step.run(connection, keys)
        await connection.send("HSET", keys.meta, "schema", str(step.number))
    await connection.send("EVAL", _RELEASE, "1", keys.migrating, token)
