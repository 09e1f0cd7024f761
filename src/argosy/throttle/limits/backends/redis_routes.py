"""Which Redis or Valkey server a bucket is on: the one that a URL names, or a node of a cluster.

    redis://[user:password@]host[:port][/db]                rediss:// with TLS; valkey:// and valkeys:// are the same
    redis+cluster://[user:password@]host[:port][,host…]     rediss+cluster:// with TLS

A cluster's client would send again what a node may already have counted, so it is asked for its map only; calls go to
the nodes themselves. Nothing connects before it is used.
"""

from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from argosy.base.errors import Invalid
from argosy.base.redact import redact
from argosy.base.urls import bracketed, split_url

# The scheme says which server people run, and whether the wire is encrypted; the protocol is the same.
SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
CLUSTER_SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}

CONNECTIONS_MAX = 16  # to each server: it works one script at a time, more would only wait there
PORT = 6379


class Routes(Protocol):
    """Where keys are. `forget` makes the next call find out anew."""

    async def server_of(self, key: str) -> Redis: ...
    async def forget(self) -> None: ...
    async def close(self) -> None: ...


def routes(url: str, *, timeout_s: float) -> Routes:
    """The routes of a URL; Invalid, without its secrets, if it is none."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in (*SCHEMES, *CLUSTER_SCHEMES):
        raise Invalid(f"{redact(url)[:100]!r} is not a Redis URL: write redis://host:port/0")
    try:
        if scheme in SCHEMES:
            return _Single(_client(f"{SCHEMES[scheme]}://{rest}", timeout_s))
        return _Cluster(CLUSTER_SCHEMES[scheme], split_url(url).netloc, timeout_s)
    except ValueError as error:
        raise Invalid(f"{shown(url)} is not a Redis URL: {redact(str(error))}") from error


def shown(url: str) -> str:
    """The server's name for people: no user, no password, no options."""
    parts = split_url(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _Single:
    """One server has all keys."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def server_of(self, key: str) -> Redis:
        return self._client

    async def forget(self) -> None:
        # After a failover the name leads elsewhere, but idle connections still lead to the old primary.
        await self._client.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        await self._client.aclose()


class _Cluster:
    """A cluster: its map is read when first needed, and again when it turned out to be wrong."""

    def __init__(self, scheme: str, netloc: str, timeout_s: float) -> None:
        login, _, hosts = netloc.rpartition("@")
        places = [urlsplit(f"//{place}") for place in hosts.split(",")]
        self._seeds = [(place.hostname or "localhost", place.port or PORT) for place in places]
        self._prefix = f"{scheme}://{login}@" if login else f"{scheme}://"
        user, _, password = login.partition(":")
        self._options: dict[str, Any] = {"ssl": scheme == "rediss", "socket_connect_timeout": timeout_s}
        self._options |= {name: unquote(part) for name, part in (("username", user), ("password", password)) if part}
        self._timeout_s = timeout_s
        self._map: RedisCluster | None = None
        self._nodes: dict[str, Redis] = {}

    async def server_of(self, key: str) -> Redis:
        if self._map is None:
            await self._read_map()
        assert self._map is not None
        node = self._map.get_node_from_key(key)
        assert node is not None  # the map covers every slot, or reading it failed
        if node.name not in self._nodes:
            self._nodes[node.name] = _client(f"{self._prefix}{bracketed(node.host)}:{node.port}", self._timeout_s)
        return self._nodes[node.name]

    async def _read_map(self) -> None:
        read = RedisCluster(
            startup_nodes=[ClusterNode(host, port) for host, port in self._seeds],
            retry=Retry(NoBackoff(), 0),
            **self._options,
        )
        try:
            await read.initialize()
            gone = self._nodes.keys() - {node.name for node in read.get_nodes()}
            for name in gone:
                await self._nodes.pop(name).aclose()
            if self._map is None:  # else another call was quicker
                self._map, read = read, None  # type: ignore[assignment]
        finally:
            if read is not None:
                await read.aclose()

    async def forget(self) -> None:
        # Other calls may be under way on the nodes' connections, so only those that are idle are closed.
        stale, self._map = self._map, None
        if stale is not None:
            await stale.aclose()
        for node in list(self._nodes.values()):
            await node.connection_pool.disconnect(inuse_connections=False)

    async def close(self) -> None:
        await self.forget()
        for node in self._nodes.values():
            await node.aclose()
        self._nodes = {}


def _client(url: str, timeout_s: float) -> Redis:
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=CONNECTIONS_MAX,
        timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        socket_timeout=None,  # the whole call is bounded
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        protocol=2,
    )
    return Redis.from_pool(pool)
