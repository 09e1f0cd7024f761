"""The client against real servers: logins, TLS, several endpoints, and its error messages."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Invalid, Unavailable
from argosy.base.retry import RetryBudget
from argosy.ownership.backends.etcd import EtcdStore
from argosy.ownership.backends.etcd_client import EtcdClient, EtcdUrl, follow
from argosy.ownership.backends.etcd_client.calls import WATCH_BACKOFF
from argosy.ownership.backends.etcd_client.ops import is_absent, is_attached, none_newer, put
from argosy.ownership.events import LeaseChanged, LeaseGone, Snapshot
from argosy.ownership.model import Member, SessionRole, Space, Unit
from tests.servers.etcd import Etcd, free_ports

PATIENCE_S = 20.0
GUARDING = (
    "user add root:sesame",
    "user grant-role root root",
    "role add fleet",
    "role grant-permission fleet readwrite /argosy/ --prefix",
    "user add fleet:word",
    "user grant-role fleet fleet",
    "auth enable",
)


async def connected(url: str) -> EtcdClient:
    return await EtcdClient.open(EtcdUrl.parse(url), connect_timeout_s=5.0)


async def until_put(client: EtcdClient, key: bytes) -> None:
    """One call may be lost with the endpoint that it went to; the next goes elsewhere."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await client.put(key, b"")
                return
            except Unavailable:
                continue


@pytest.fixture
def guarded() -> Iterator[Etcd]:
    """An etcd that asks for a login and forgets tokens that are not used for a second."""
    with Etcd(options=("--auth-token-ttl", "1")) as etcd:
        for command in GUARDING:
            etcd.ctl(*command.split())
        yield etcd


async def test_a_login_is_renewed_when_its_token_has_run_out(guarded: Etcd) -> None:
    client = await connected(f"etcd://root:sesame@{guarded.endpoint}")
    first = client.channel._token
    client.channel._token = "forged.1"
    assert await client.put(b"k", b"v")
    assert client.channel._token not in (first, "forged.1")
    lease = await client.grant(60)
    client.channel._token = "forged.2"
    assert await client.keep_alive(lease) == 60
    client.channel._token = "forged.3"

    async def is_same_store() -> bool:
        return True

    budget = RetryBudget(WATCH_BACKOFF, clock=SystemClock(), random=system_random())
    events = follow(client, b"k", after_revision=0, is_same_store=is_same_store, budget=budget)
    assert [event.kv.value for event in await asyncio.wait_for(anext(events), PATIENCE_S)] == [b"v"]
    await events.aclose()
    await client.close()


async def test_a_user_limited_to_our_prefix_is_enough_and_a_restart_keeps_the_login(guarded: Etcd) -> None:
    url, space = f"etcd://fleet:word@{guarded.endpoint}", Space("shards", is_auctioned=False)
    store = await EtcdStore.open(url, space, clock=SystemClock(), random=system_random(), grace_s=0.0)
    session = await store.open_session(SessionRole.HOLDER, Member("n", "a"), ttl_s=60)
    stream = store.watch()
    assert isinstance(await anext(stream), Snapshot)
    lease = await store.claim(session, Unit("u"))
    assert await anext(stream) == LeaseChanged(lease)
    guarded.restart()  # etcd keeps its simple tokens in memory
    gone = asyncio.create_task(cast(Any, anext(stream)))
    async with asyncio.timeout(PATIENCE_S):
        while not gone.done():
            try:
                await store.release(session, lease.unit, lease.epoch)
            except Unavailable:
                continue
    assert await gone == LeaseGone(lease.unit, lease.epoch)
    await store.close()


@pytest.mark.parametrize(
    ("login", "message"),
    [("root:wrong@", "rejected the login"), ("", "requires a login"), ("fleet:word@", "permission denied")],
)
async def test_a_wrong_login_is_reported_as_one(guarded: Etcd, login: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        await (await connected(f"etcd://{login}{guarded.endpoint}")).get(b"/elsewhere")
    assert "wrong" not in str(caught.value)


async def test_a_login_to_a_cluster_without_authentication_is_rejected() -> None:
    with Etcd() as etcd, pytest.raises(Invalid, match="authentication is not enabled"):
        await connected(f"etcd://root:sesame@{etcd.endpoint}")


async def test_tls_trusts_the_given_authority_only() -> None:
    with Etcd(scheme="https", options=("--auto-tls",)) as etcd:
        certificate = etcd.folder / "fixtures" / "client" / "cert.pem"
        client = await connected(f"{etcd.url}?ca={certificate}")
        assert await client.put(b"k", b"v")
        await client.close()
        with pytest.raises(Unavailable, match="TLS"):
            await EtcdClient.open(EtcdUrl.parse(etcd.url), connect_timeout_s=1.0)


async def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"missing\.pem"):
        await connected(f"etcds://127.0.0.1:1?ca={tmp_path / 'missing.pem'}")


async def test_a_cluster_never_reached_that_refuses_is_not_waited_for_to_the_end() -> None:
    one, two = free_ports(2)
    with pytest.raises(Unavailable, match="refused the connection; check that etcd runs there"):
        async with asyncio.timeout(PATIENCE_S):
            await EtcdClient.open(EtcdUrl.parse(f"etcd://127.0.0.1:{one},127.0.0.1:{two}"), connect_timeout_s=3600)


async def test_a_slow_endpoint_gets_its_full_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and sends nothing
        url = f"etcd://127.0.0.1:{free_ports(1)[0]},127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable, match=r"is reachable \(waited 1\.5 s\)"):
            await EtcdClient.open(EtcdUrl.parse(url), connect_timeout_s=1.5)


async def test_a_program_that_starts_reports_that_etcd_refuses() -> None:
    url = f"etcd://127.0.0.1:{free_ports(1)[0]}"
    command = ("-m", "argosy.cli", "serve", "--role", "hold", "--store", url, "--port", "0")
    program = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.PIPE)
    try:
        assert program.stderr is not None
        line = await asyncio.wait_for(program.stderr.readline(), PATIENCE_S)
        assert f"etcd at {url}/ refused the connection" in line.decode()
        assert program.returncode is None  # it tries again before it gives up
    finally:
        program.kill()
        await program.communicate()


async def test_a_dead_endpoint_is_skipped_and_a_dying_one_abandoned() -> None:
    with Etcd() as one, Etcd() as two:  # two independent servers, so the keys reveal which one was called
        dead = free_ports(1)[0]
        client = await connected(f"etcd://127.0.0.1:{dead},{one.endpoint},{two.endpoint}")
        await client.put(b"k", b"first")
        first, second = (one, two) if one.ctl("get", "k") else (two, one)
        assert not second.ctl("get", "k")
        first.kill()
        await until_put(client, b"k2")
        assert second.ctl("get", "k2")
        await client.close()


async def test_an_endpoint_that_stopped_answering_is_abandoned_after_one_call() -> None:
    with Etcd() as one, Etcd() as two:
        client = await connected(f"etcd://{one.endpoint},{two.endpoint}")
        await client.put(b"k", b"first")
        first, second = (one, two) if one.ctl("get", "k") else (two, one)
        first.pause()
        with pytest.raises(Unavailable, match="timed out"):
            await client.put(b"k2", b"lost")
        await client.put(b"k3", b"")
        assert second.ctl("get", "k3")
        await client.close()


async def test_a_lease_that_has_ended_is_no_error_but_an_answer() -> None:
    with Etcd() as etcd:
        client = await connected(etcd.url)
        lease = await client.grant(60)
        assert await client.revoke(lease)
        assert not await client.revoke(lease)
        assert await client.keep_alive(lease) == 0
        assert await client.time_to_live(lease) == -1
        await client.close()


async def test_conditions_of_keys_that_are_absent() -> None:
    """The store relies on these: an absent key has no lease, and no key of an empty range is newer."""
    with Etcd() as etcd:
        client = await connected(etcd.url)
        lease = await client.grant(60)
        assert (await client.txn(when=[is_absent(b"k"), none_newer(b"p/", 0)], then=[put(b"k", b"")])).succeeded
        assert not (await client.txn(when=[is_absent(b"k")])).succeeded
        assert not (await client.txn(when=[is_attached(b"absent", lease)])).succeeded
        revision = await client.put(b"p/a", b"")
        assert (await client.txn(when=[none_newer(b"p/", revision)])).succeeded
        assert not (await client.txn(when=[none_newer(b"p/", revision - 1)])).succeeded
        await client.close()
