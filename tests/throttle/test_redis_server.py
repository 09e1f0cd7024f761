"""The shared state on a server that dies, loses data, hangs, is slow, fails over, is a cluster, needs a password.

The throttle always decides: a decision that waited for the store would hang these tests (THR-2).
"""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import redis

from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import SystemClock
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.base.metrics import Metrics
from argosy.throttle import Config, FairThrottle, Outcome, telemetry
from argosy.throttle.backends.redis_keys import RowKeys
from argosy.throttle.factory import open_row_store
from argosy.throttle.ports import RowId, RowPush, SyncBatch
from argosy.throttle.rows import row_rules
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.sync import ThrottleSync
from tests.servers.etcd import Etcd
from tests.servers.valkey import Valkey, free_port
from tests.servers.valkey_groups import cluster, cluster_url, run_sentinel
from tests.throttle.proxy import Proxy

CLOCK = SystemClock()
PATIENCE_S = 60.0
FOREVER = Config(decay_per_s=0.0, window_s=86_400 * 20)  # neither time nor rotation forgives within a test


@pytest.fixture
def server() -> Iterator[Valkey]:
    """One per test, since these tests stop it; without persistence."""
    with Valkey() as started:
        yield started


def pace(url: str, **more: object) -> ThrottleSettings:
    quick = {"flush_s": 0.02, "poll_s": 0.05, "call_timeout_s": 0.3, "attempts_max": 2}
    return ThrottleSettings(store=url, **{**quick, **more})  # type: ignore[arg-type]


class Front:
    """One instance: a throttle, its sharing, and requests that must always be answered."""

    def __init__(self, settings: ThrottleSettings) -> None:
        self.throttle = FairThrottle(FOREVER)
        self.metrics = Metrics()
        self.sharing = ThrottleSync.open(self.throttle, settings, metrics=self.metrics)
        taken = {stats for client in ("noisy", "other") for stats in self.throttle.explain(client).buckets}
        names = (f"client-{number}" for number in range(100))
        # Clients that share a bucket with those the tests look at would move their probabilities a little.
        self.clients = [name for name in names if taken.isdisjoint(self.throttle.explain(name).buckets)][:10]

    def blame(self, client: str, failures: int) -> None:
        for _ in range(failures):
            self.throttle.report(client, Outcome.FAILURE)

    def serve(self, requests: int = 200) -> None:
        """Healthy and unhealthy traffic, which never waits and never fails."""
        for number in range(requests):
            client = self.clients[number % 10]
            if not self.throttle.register(client).throttled:
                self.throttle.report(client, Outcome.FAILURE if number % 7 == 0 else Outcome.SUCCESS)

    def probability(self, client: str) -> float:
        return self.throttle.explain(client).probability

    @property
    def is_unreachable(self) -> bool:
        return self.sharing.storage.status(CLOCK.now()).is_unreachable

    def knows(self, client: str, probability: float) -> Callable[[], bool]:
        return lambda: abs(self.probability(client) - probability) < 1e-9


@contextmanager
def fronts(*settings: ThrottleSettings) -> Iterator[list[Front]]:
    with ExitStack() as stack:
        opened = [Front(each) for each in settings]
        for front in opened:
            stack.enter_context(front.sharing)
        yield opened


def until(is_so: Callable[[], bool], *serving: Front) -> None:
    """Serves requests until the condition holds."""
    deadline = CLOCK.now() + PATIENCE_S
    while not is_so():
        for front in serving:
            front.serve(20)
        assert CLOCK.now() < deadline, "the condition did not hold in time"


# -- a server that fails ----------------------------------------------------------------------------------------------


def test_a_server_that_is_killed_and_comes_back_empty(server: Valkey) -> None:
    with fronts(pace(server.url), pace(server.url)) as (one, two):
        one.blame("noisy", 20)
        two.blame("other", 1)
        until(lambda: two.knows("noisy", 0.8)() and one.knows("other", 0.04)())
        server.kill()
        until(lambda: one.is_unreachable and two.is_unreachable, one, two)
        assert one.probability("noisy") == pytest.approx(0.8)
        assert one.throttle.stats().gain == 2  # it stands for both
        one.serve()
        server.start()
        until(lambda: not one.is_unreachable and not two.is_unreachable, one, two)
        with fronts(pace(server.url)) as (newcomer,):
            until(newcomer.knows("noisy", 0.8), one)  # the server got the lost state again
        two.blame("noisy", 2)
        until(lambda: abs(one.probability("noisy") - 0.88) < 1e-9, one)
        assert one.metrics.value(telemetry.STORE_ERRORS) > 0
        assert one.metrics.value(telemetry.STORE_CONNECTED) == 1


def test_a_server_that_loses_data_without_a_disconnect(server: Valkey) -> None:
    with fronts(pace(server.url), pace(server.url)) as (one, two), redis.Redis.from_url(server.url) as client:
        one.blame("noisy", 20)
        until(two.knows("noisy", 0.8))
        client.flushall()
        until(lambda: one.metrics.value(telemetry.ROWS_LOST) > 0, one)
        assert two.probability("noisy") == pytest.approx(0.8)
        client.script_flush()  # the scripts are loaded again, too
        with fronts(pace(server.url)) as (newcomer,):
            until(newcomer.knows("noisy", 0.8), one)
        assert not one.is_unreachable


def test_a_hung_server(server: Valkey) -> None:
    with fronts(pace(server.url), pace(server.url)) as (one, two):
        one.blame("noisy", 5)
        until(two.knows("noisy", 0.2))
        server.pause()
        one.blame("noisy", 5)
        until(lambda: one.is_unreachable, one)
        one.serve(2000)
        server.resume()
        until(lambda: not one.is_unreachable, one)
        until(lambda: abs(one.probability("noisy") - two.probability("noisy")) < 1e-9)
        assert one.probability("noisy") >= 0.4 - 1e-9


def test_no_request_waits_for_a_slow_server(server: Valkey) -> None:
    with Proxy(server.port) as proxy, fronts(pace(proxy.url, call_timeout_s=5.0), pace(server.url)) as (slow, quick):
        proxy.delay_s = 0.4
        slow.blame("noisy", 20)
        until(quick.knows("noisy", 0.8), slow)
        quick.blame("noisy", 2)
        until(slow.knows("noisy", 0.88), slow)
        assert not slow.is_unreachable
        assert slow.metrics.value(telemetry.UPDATE_LATENCY) > 0


def test_a_server_slower_than_the_timeout_is_unavailable_and_counts_nothing_twice(server: Valkey) -> None:
    with Proxy(server.port) as proxy, fronts(pace(proxy.url), pace(server.url)) as (slow, quick):
        until(lambda: slow.sharing.storage.status(0).has_pulled)
        proxy.delay_s = 0.5  # what is sent arrives, but its answer is too late
        slow.blame("noisy", 10)
        until(lambda: slow.is_unreachable, slow)
        proxy.delay_s = 0.0
        until(lambda: not slow.is_unreachable, slow)
        until(lambda: abs(slow.probability("noisy") - quick.probability("noisy")) < 1e-9)
        assert quick.probability("noisy") == pytest.approx(0.4)


def test_a_failover_to_a_replica(server: Valkey) -> None:
    with Valkey() as second, Proxy(server.port) as name, redis.Redis.from_url(second.url) as replica:
        replica.execute_command("REPLICAOF", "127.0.0.1", server.port)
        with fronts(pace(name.url), pace(name.url)) as (one, two):
            one.blame("noisy", 20)
            until(two.knows("noisy", 0.8))
            until(lambda: bool(replica.keys()))
            name.switch(second.port)  # still a replica: writes are rejected
            one.blame("noisy", 2)
            until(lambda: one.metrics.value(telemetry.STORE_ERRORS) > 0, one)
            server.kill()
            replica.execute_command("REPLICAOF", "NO", "ONE")
            until(lambda: not one.is_unreachable and not two.is_unreachable, one, two)
            until(lambda: abs(one.probability("noisy") - two.probability("noisy")) < 1e-9)
            assert two.probability("noisy") >= 0.8 - 1e-9


def test_a_failover_that_sentinels_see_to(server: Valkey) -> None:
    with (
        Valkey() as second,
        run_sentinel(server, second) as url,
        redis.Redis.from_url(second.url) as replica,
        fronts(pace(url), pace(url)) as (one, two),
    ):
        one.blame("noisy", 20)
        until(two.knows("noisy", 0.8))
        until(lambda: bool(replica.keys()))
        server.kill()
        until(lambda: one.is_unreachable and two.is_unreachable, one, two)
        assert one.probability("noisy") >= 0.8 - 1e-9  # no instance has lost anything meanwhile
        until(lambda: not one.is_unreachable and not two.is_unreachable, one, two)
        assert replica.execute_command("ROLE")[0] == b"master"
        two.blame("noisy", 1)
        until(lambda: one.knows("noisy", two.probability("noisy"))())
        assert one.probability("noisy") >= 0.84 - 1e-9


def test_a_start_without_the_server(server: Valkey) -> None:
    server.kill()
    with fronts(pace(server.url)) as (early,):
        early.blame("noisy", 20)
        early.serve()
        assert early.is_unreachable
        server.start()
        until(lambda: not early.is_unreachable, early)
        with fronts(pace(server.url)) as (late,):
            until(late.knows("noisy", 0.8))


def test_a_new_instance_reads_the_shared_state_before_it_serves(server: Valkey) -> None:
    with fronts(pace(server.url)) as (old,):
        old.blame("noisy", 20)
        until(lambda: old.metrics.value(telemetry.UPDATE_LATENCY) > 0)
        with fronts(pace(server.url, cold_start_s=30)) as (new,):
            assert new.probability("noisy") == pytest.approx(0.8)


async def test_the_same_as_a_task(server: Valkey) -> None:
    one, two = Front(pace(server.url)), Front(pace(server.url))
    async with one.sharing:
        one.blame("noisy", 20)
    async with two.sharing:  # the first has flushed everything
        assert two.probability("noisy") == pytest.approx(0.8)
        with pytest.raises(Conflict, match="started already"):
            two.sharing.start()


# -- a cluster --------------------------------------------------------------------------------------------------------


def test_a_cluster_and_one_of_its_nodes_killed() -> None:
    with cluster() as nodes:
        url = cluster_url(nodes)
        with fronts(pace(url), pace(url)) as (one, two):
            one.blame("noisy", 20)
            until(two.knows("noisy", 0.8))
            holding = [node for node in nodes if keys_of(node)]
            assert len(holding) > 1  # rows spread over the nodes
            holding[-1].kill()
            until(lambda: one.is_unreachable, one)
            assert one.probability("noisy") == pytest.approx(0.8)
            holding[-1].start()
            until(lambda: not one.is_unreachable and not two.is_unreachable, one, two)
            two.blame("noisy", 2)
            until(one.knows("noisy", 0.88), one)


def test_an_unavailable_cluster_is_handled_like_any_other_store() -> None:
    cell, url = RowId(0, 0), f"redis+cluster://user:hidden@127.0.0.1:{free_port()}"
    rows = open_row_store(url, row_rules(FOREVER), instance="i", settings=pace(url))
    with pytest.raises(Unavailable, match="unreachable") as caught:
        rows.exchange(SyncBatch(pushes=(RowPush(cell, 1, ((0, 0.1, 1),)),)))
    rows.close()
    assert "hidden" not in str(caught.value)


def keys_of(node: Valkey) -> list[bytes]:
    with redis.Redis.from_url(node.url) as client:
        return list(client.keys())


# -- the schema and permissions --------------------------------------------------------------------------------------


def test_rows_are_as_the_design_spells_them(server: Valkey) -> None:
    with fronts(pace(server.url)) as (front,), redis.Redis.from_url(server.url, decode_responses=True) as client:
        front.blame("noisy", 1)
        until(lambda: len(client.keys()) == 6)
        seed, following = front.throttle.seeds
        assert set(client.keys()) == {f"v1:{each}:{row}" for each in (seed, following) for row in range(3)}
        row = client.hgetall(f"v1:{seed}:0")
        (col,) = [stats.bucket for stats in front.throttle.explain("noisy").buckets if stats.level == 0]
        assert float(row[f"{col}:prob"]) == 0.04
        assert abs(int(row[f"{col}:time"]) - CLOCK.wall() * 1000) < 120_000
        assert 0 < client.pttl(f"v1:{seed}:0") <= 3 * FOREVER.window_ms


def test_the_ttl_is_set_once(server: Valkey) -> None:
    with redis.Redis.from_url(server.url) as client:
        rows = open_row_store(server.url, row_rules(Config()), instance="i", settings=pace(server.url))
        cell = RowId(300_000, 0)
        rows.exchange(SyncBatch(pushes=(RowPush(cell, 1, ((1, 0.1, 0),)),)))
        client.pexpire(RowKeys().row(cell), 100_000)
        rows.exchange(SyncBatch(pushes=(RowPush(cell, 2, ((1, 0.1, 0),)),)))
        assert client.pttl(RowKeys().row(cell)) <= 100_000
        rows.close()


def test_garbage_in_a_row_is_an_outage_and_no_crash(server: Valkey) -> None:
    with fronts(pace(server.url)) as (front,), redis.Redis.from_url(server.url) as client:
        front.blame("noisy", 1)
        until(lambda: len(client.keys()) == 6)
        key = f"v1:{front.throttle.seeds[0]}:0"
        client.hset(key, mapping={"7:prob": "many", "7:time": "1"})
        client.hincrby(key, "~v", 1)
        until(lambda: front.is_unreachable, front)
        assert front.probability("noisy") == pytest.approx(0.04)
        client.hdel(key, "7:prob", "7:time")
        until(lambda: not front.is_unreachable, front)


def test_a_probability_from_outside_the_bounds_is_brought_back(server: Valkey) -> None:
    with fronts(pace(server.url)) as (front,), redis.Redis.from_url(server.url) as client:
        front.blame("noisy", 1)
        until(lambda: len(client.keys()) == 6)
        for stats in front.throttle.explain("noisy").buckets:
            key = f"v1:{front.throttle.seeds[0]}:{stats.level}"
            client.hset(key, f"{stats.bucket}:prob", "7.35")
            client.hincrby(key, "~v", 1)
        until(front.knows("noisy", 1.0))
        assert front.probability("noisy") == 1.0


def test_two_throttles_with_different_parameters_under_one_name_are_rejected(server: Valkey) -> None:
    with fronts(pace(server.url)) as (front,):
        front.blame("noisy", 1)
        until(lambda: front.metrics.value(telemetry.UPDATE_LATENCY) > 0)
        other = open_row_store(server.url, row_rules(Config(buckets=99)), instance="x", settings=pace(server.url))
        with pytest.raises(Conflict, match="namespace"):
            other.exchange(SyncBatch(pushes=(RowPush(RowId(front.throttle.seeds[0], 0), 1, ((1, 0.1, 0),)),)))
        other.close()


def test_credentials_are_needed_and_never_printed() -> None:
    with Valkey(options=("--requirepass", "hush-hush")) as server:
        url = server.url.replace("redis://", "redis://:hush-hush@")
        with fronts(pace(url), pace(url)) as (one, two):
            one.blame("noisy", 5)
            until(two.knows("noisy", 0.2))
        for wrong in (server.url, server.url.replace("redis://", "redis://:hash-hash@")):
            rows = open_row_store(wrong, row_rules(Config()), instance="x", settings=pace(wrong))
            with pytest.raises(Unavailable) as refused:
                rows.exchange(SyncBatch())
            assert "h-h" not in str(refused.value)
            rows.close()


def test_a_user_with_no_more_rights_than_needed_is_enough(server: Valkey) -> None:
    with redis.Redis.from_url(server.url) as admin:
        rights = "+evalsha +script|load +hmget +hset +hgetall +pttl +pexpire +time +client|setname +select"
        admin.execute_command("ACL", "SETUSER", "fair", "on", ">pw", "~v1:*", "resetchannels", *rights.split())
        url = server.url.replace("redis://", "redis://fair:pw@")
        with fronts(pace(url), pace(url)) as (one, two):
            one.blame("noisy", 5)
            until(two.knows("noisy", 0.2))
            assert admin.execute_command("ACL", "LOG") == []


def test_the_wire_can_be_encrypted(server: Valkey) -> None:
    with Etcd(scheme="https", options=("--auto-tls",)) as etcd:  # the one here that can create a certificate
        (certificate,) = etcd.folder.rglob("cert.pem")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, certificate.with_name("key.pem"))
        with Proxy(server.port, tls=tls) as proxy:
            trusting = f"{proxy.url}?ssl_ca_certs={certificate}&ssl_check_hostname=false"
            with fronts(pace(trusting, call_timeout_s=5.0), pace(server.url)) as (one, two):
                one.blame("noisy", 5)
                until(two.knows("noisy", 0.2))
            rows = open_row_store(
                proxy.url, row_rules(Config()), instance="x", settings=pace(proxy.url, call_timeout_s=5.0)
            )
            with pytest.raises(Unavailable, match="certificate"):
                rows.exchange(SyncBatch())
            rows.close()


# -- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redi://localhost", "did you mean redis://"),
        ("localhost:6379", "expected redis"),
        ("memory://", "expected redis"),
        ("redis+sentinel://localhost:26379", "append /<service>"),
        ("redis://localhost:port/0", "not a Redis URL"),
    ],
)
def test_a_wrong_url_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        open_row_store(url, row_rules(Config()), instance="i", settings=ThrottleSettings())


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "valkeys"])
def test_nothing_connects_before_it_is_used(scheme: str) -> None:
    for url in (f"{scheme}://user:pw@nowhere.invalid:1", f"{scheme}+sentinel://nowhere.invalid,elsewhere:1/service/3"):
        open_row_store(url, row_rules(Config()), instance="i", settings=ThrottleSettings()).close()
    with pytest.raises(Invalid, match=r"throttle\.store"):
        ThrottleSync.open(FairThrottle(), ThrottleSettings())


@pytest.mark.parametrize(
    "url", ["redis+cluster://user:pw@[::1]:1,[::2]:2", "redis+sentinel://[::1]:1,[::2],h:3/service"]
)
def test_several_hosts_may_have_ipv6_addresses(url: str) -> None:
    open_row_store(url, row_rules(Config()), instance="i", settings=ThrottleSettings()).close()
    assert parse_redis_url(url).name == url.replace("user:pw@", "")
    with pytest.raises(Invalid, match="is not a Redis URL"):
        open_row_store(url.replace("[::2]", "[::2"), row_rules(Config()), instance="i", settings=ThrottleSettings())
