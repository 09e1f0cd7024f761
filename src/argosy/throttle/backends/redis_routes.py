"""The ways to Redis or Valkey that a URL can name: one server, a cluster, or whoever the sentinels call the primary.

    redis://[user:password@]host[:port][/db]                rediss:// with TLS; valkey:// and valkeys:// are the same
    redis+cluster://[user:password@]host[:port][,host…]     rediss+cluster:// with TLS
    redis+sentinel://[user:password@]host[:port],host…/service[/db]

Nothing connects before it is used, and a library's own retries are off: the exchange decides what is sent again. With
TLS the usual options of redis-py apply, such as `?ssl_ca_certs=FILE`.
"""

from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry
from redis.sentinel import Sentinel

from argosy.base.errors import Invalid
from argosy.base.redact import redact
from argosy.base.urls import split_url

PLAIN = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}
CLUSTER = {"redis+cluster": False, "rediss+cluster": True}
SENTINEL = "redis+sentinel"
SCHEMES = (*PLAIN, *CLUSTER, SENTINEL)
PORT, SENTINEL_PORT = 6379, 26379


class Routes(Protocol):
    """Which server a key is on. `forget` makes the next call find out anew."""

    def server_of(self, key: str) -> "Redis": ...
    def forget(self) -> None: ...
    def close(self) -> None: ...


def routes(url: str, *, timeout_s: float) -> Routes:
    """The routes of a URL; Invalid, without its secrets, if it is none."""
    options = {
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    scheme = url.partition("://")[0]
    try:
        if scheme in CLUSTER:
            return _Cluster(url, options)
        if scheme == SENTINEL:
            return _Sentinels(url, options)
        if scheme in PLAIN:
            return _Single(PLAIN[scheme] + url[len(scheme) :], options)
    except ValueError as error:
        raise Invalid(f"{shown(url)} is not a Redis URL: {redact(str(error))}") from error
    raise Invalid(f"{shown(url)} is not a Redis URL: it begins with one of {', '.join(f'{s}://' for s in SCHEMES)}")


def shown(url: str) -> str:
    """The server's name for people: no user, no password, no options."""
    parts = split_url(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _Single:
    """One server, or whatever a name leads to."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._client = Redis.from_url(url, **options)

    def server_of(self, key: str) -> "Redis":
        return self._client

    def forget(self) -> None:
        # After a failover the name leads elsewhere, but idle connections still lead to the old primary.
        self._client.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        self._client.close()


class _Sentinels:
    """The primary, as the sentinels say; redis-py asks them again for each new connection."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        parts = split_url(url)
        path = [unquote(part) for part in parts.path.split("/")[1:] if part]
        if not path:
            raise ValueError("it does not say which service the sentinels watch: add /<service>")
        hosts = _hosts(parts.netloc, SENTINEL_PORT)
        self._sentinel = Sentinel(hosts, sentinel_kwargs=options)  # type: ignore[no-untyped-call]
        db = {"db": int(path[1])} if len(path) > 1 else {}
        settled = {**options, **_login(parts.netloc), **db}
        self._client: Redis = self._sentinel.master_for(path[0], **settled)  # type: ignore[no-untyped-call]

    def server_of(self, key: str) -> "Redis":
        return self._client

    def forget(self) -> None:
        self._client.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        self._client.close()
        for sentinel in self._sentinel.sentinels:
            sentinel.close()


class _Cluster:
    """A cluster: its map is read when first needed, and again when it turned out to be wrong."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        parts = split_url(url)
        hosts = _hosts(parts.netloc, PORT)
        self._nodes = [ClusterNode(host, port) for host, port in hosts]  # type: ignore[no-untyped-call]
        options = {name: value for name, value in options.items() if name != "retry"}
        self._options = {**options, **_login(parts.netloc), "ssl": CLUSTER[parts.scheme]}
        self._cluster: RedisCluster | None = None

    def server_of(self, key: str) -> "Redis":
        if self._cluster is None:
            self._cluster = RedisCluster(startup_nodes=self._nodes, retry=Retry(NoBackoff(), 0), **self._options)
        node = self._cluster.get_node_from_key(key)  # type: ignore[no-untyped-call]
        return self._cluster.get_redis_connection(node)

    def forget(self) -> None:
        self.close()

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def _hosts(netloc: str, default_port: int) -> list[tuple[str, int]]:
    places = [urlsplit(f"//{place}") for place in netloc.rpartition("@")[2].split(",")]
    return [(place.hostname or "localhost", place.port or default_port) for place in places]


def _login(netloc: str) -> dict[str, str]:
    user, _, password = netloc.rpartition("@")[0].partition(":")
    return {name: unquote(value) for name, value in (("username", user), ("password", password)) if value}
