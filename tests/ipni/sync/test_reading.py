"""Publishers read over real HTTP: correct ones in all their forms, and every way to be malicious or slow.

"PUBLIC" stands for an address of the public internet; this machine has no other.
"""

import gzip
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from argosy.base.errors import Invalid, NotFound, Unavailable
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.cid import DAG_JSON, Cid
from argosy.ipni.formats.head import sign_head
from argosy.ipni.formats.multihash import BLAKE2B_256, SHA2_512
from argosy.ipni.formats.peer import PrivateKey
from argosy.ipni.model import Peer
from argosy.ipni.settings import KIB, MIB, SyncSettings
from argosy.ipni.sync.client import BadStatus, HttpSource, HttpSources
from argosy.ipni.sync.fetcher import REDIRECTS_MAX
from tests.ipni.sync.malicious_publisher import (
    MaliciousPublisher,
    drip,
    hang_up,
    malicious_publisher,
    pour,
    reply,
    silence,
    trickle,
)

PUBLIC = "127.0.0.2"
KEY = PrivateKey.generate(random_bytes=bytes(range(32)))
BODY = b'{"Entries":[]}'
BLOCK = cids.of(BODY, DAG_JSON)
PATH = f"/ipni/v1/ad/{BLOCK}"
HEAD = "/ipni/v1/ad/head"


@pytest.fixture
async def publisher() -> AsyncIterator[MaliciousPublisher]:
    async with malicious_publisher() as running:
        yield running


@pytest.fixture
async def sources() -> AsyncIterator[HttpSources]:
    http_sources = HttpSources(SyncSettings(allow_private=True, grace_s=2.0, entries_bytes_max=64 * KIB))
    yield http_sources
    await http_sources.close()


def opened(sources: HttpSources, *publishers: MaliciousPublisher, key: PrivateKey = KEY) -> HttpSource:
    return sources.open(Peer(key.peer_id, tuple(publisher.address for publisher in publishers)))


async def test_a_head_is_what_the_publisher_has_signed(publisher: MaliciousPublisher, sources: HttpSources) -> None:
    publisher.answers[HEAD] = [reply(sign_head(BLOCK, KEY))]
    found = await opened(sources, publisher).head()
    assert found is not None
    assert (found.head, found.signer) == (BLOCK, KEY.peer_id)


async def test_a_publisher_without_advertisements_has_no_head(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    publisher.answers[HEAD] = [reply(status=204)]
    assert await opened(sources, publisher).head() is None


async def test_a_head_signed_by_another_peer_is_rejected(publisher: MaliciousPublisher, sources: HttpSources) -> None:
    stranger = PrivateKey.generate(random_bytes=b"s" * 32)
    publisher.answers[HEAD] = [reply(sign_head(BLOCK, stranger))]
    with pytest.raises(Invalid, match=f"is signed by {stranger.peer_id}"):
        await opened(sources, publisher).head()


async def test_a_head_whose_signature_is_of_another_head_is_refused(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    forged = sign_head(BLOCK, KEY).replace(str(BLOCK).encode(), str(cids.of(b"x", DAG_JSON)).encode())
    publisher.answers[HEAD] = [reply(forged)]
    with pytest.raises(Invalid, match="the signature of"):
        await opened(sources, publisher).head()


@pytest.mark.parametrize(("is_entries", "hint"), [(True, "entrychunk"), (False, "advertisement")])
async def test_a_block_request_contains_a_hint_of_its_type(
    publisher: MaliciousPublisher, sources: HttpSources, is_entries: bool, hint: str
) -> None:
    publisher.answers[PATH] = [reply(BODY, content_type="text/html")]
    assert await opened(sources, publisher).block(BLOCK, is_entries=is_entries) == BODY
    assert publisher.requests[0][1]["ipni-cid-schema-type"] == hint


@pytest.mark.parametrize("code", [BLAKE2B_256, SHA2_512])
async def test_blocks_of_other_hash_functions_are_checked_too(
    publisher: MaliciousPublisher, sources: HttpSources, code: int
) -> None:
    block = cids.of(BODY, DAG_JSON, code)
    publisher.answers[f"/ipni/v1/ad/{block}"] = [reply(BODY), reply(BODY + b" ")]
    source = opened(sources, publisher)
    assert await source.block(block, is_entries=True) == BODY
    with pytest.raises(Invalid, match="the hash differs"):
        await source.block(block, is_entries=True)


async def test_a_block_with_another_hash_is_rejected_and_not_requested_again(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    publisher.answers[PATH] = [reply(b'{"Entries":[0]}')]
    with pytest.raises(Invalid, match="served other bytes"):
        await opened(sources, publisher).block(BLOCK, is_entries=True)
    assert publisher.paths() == [PATH]


async def test_a_packed_block_is_unpacked(publisher: MaliciousPublisher, sources: HttpSources) -> None:
    twice = gzip.compress(BODY[:5]) + gzip.compress(BODY[5:])
    publisher.answers[PATH] = [
        reply(gzip.compress(BODY), content_encoding="gzip"),
        reply(twice, content_encoding="gzip"),
    ]
    source = opened(sources, publisher)
    assert [await source.block(BLOCK, is_entries=True) for _ in range(2)] == [BODY, BODY]


@pytest.mark.parametrize("status", [404, 403])
async def test_the_older_form_of_paths_is_tried_and_cached(
    publisher: MaliciousPublisher, sources: HttpSources, status: int
) -> None:
    publisher.answers[PATH] = [reply(status=status)]
    publisher.answers[f"/{BLOCK}"] = [reply(BODY)]
    source = opened(sources, publisher)
    assert [await source.block(BLOCK, is_entries=True) for _ in range(2)] == [BODY, BODY]
    assert publisher.paths() == [PATH, f"/{BLOCK}", f"/{BLOCK}"]


async def test_a_block_a_publisher_does_not_have_is_not_found(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    source = opened(sources, publisher)
    with pytest.raises(NotFound, match="the publisher does not have it"):
        await source.block(BLOCK, is_entries=True)
    assert publisher.paths() == [PATH, f"/{BLOCK}"]


@pytest.mark.parametrize("status", [500, 503, 429, 418])
async def test_a_failing_publisher_is_unavailable_with_its_status(
    publisher: MaliciousPublisher, sources: HttpSources, status: int
) -> None:
    publisher.answers[PATH] = [reply(b"x" * 1000, status)]
    with pytest.raises(BadStatus, match=str(status)) as failure:
        await opened(sources, publisher).block(BLOCK, is_entries=True)
    assert failure.value.code == status


async def test_a_publisher_that_forbids_both_forms_is_unavailable(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    publisher.answers[PATH] = publisher.answers[f"/{BLOCK}"] = [reply(status=403)]
    with pytest.raises(BadStatus, match="answered 403"):
        await opened(sources, publisher).block(BLOCK, is_entries=True)


async def test_a_connection_that_ends_is_tried_once_more(publisher: MaliciousPublisher, sources: HttpSources) -> None:
    publisher.answers[PATH] = [hang_up, reply(BODY)]
    assert await opened(sources, publisher).block(BLOCK, is_entries=True) == BODY
    publisher.answers[PATH] = [hang_up]
    with pytest.raises(Unavailable, match="cannot be read"):
        await opened(sources, publisher).block(BLOCK, is_entries=True)
    assert len(publisher.requests) <= 6  # the HTTP library also retries


async def test_a_truncated_body_is_unavailable_not_a_wrong_block(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    publisher.answers[PATH] = [reply(BODY, length=1000)]
    with pytest.raises(Unavailable, match="cannot be read"):
        await opened(sources, publisher).block(BLOCK, is_entries=True)
    publisher.answers[PATH] = [reply(gzip.compress(BODY)[:-9], content_encoding="gzip")]
    with pytest.raises(Unavailable, match="in the middle of its gzip"):
        await opened(sources, publisher).block(BLOCK, is_entries=True)


async def test_the_next_address_is_tried_and_the_answering_one_is_preferred(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    async with malicious_publisher() as good:
        good.answers[PATH] = [reply(BODY)]
        publisher.answers[PATH] = [reply(status=502)]
        unreachable = MaliciousPublisher("127.0.0.1", port=1)
        source = opened(sources, unreachable, publisher, good)
        assert [await source.block(BLOCK, is_entries=True) for _ in range(3)] == [BODY] * 3
        assert (len(publisher.requests), len(good.requests)) == (1, 3)


async def test_a_large_answer_is_refused_before_it_is_read(publisher: MaliciousPublisher, sources: HttpSources) -> None:
    publisher.answers[PATH] = [pour(b"x" * KIB)]
    with pytest.raises(Invalid, match=f"more than {64 * KIB} bytes"):
        await opened(sources, publisher).block(BLOCK, is_entries=True)


@pytest.mark.parametrize("is_entries", [True, False])
async def test_each_kind_of_block_has_its_own_bound(publisher: MaliciousPublisher, is_entries: bool) -> None:
    data = b"0" * (2 * KIB)
    block = cids.of(data, DAG_JSON)
    publisher.answers[f"/ipni/v1/ad/{block}"] = [reply(data)]
    bounds = {"ad_bytes_max": KIB} if is_entries else {"entries_bytes_max": KIB}
    sources = HttpSources(SyncSettings(allow_private=True, **bounds))
    try:
        source = opened(sources, publisher)
        assert await source.block(block, is_entries=is_entries) == data
        with pytest.raises(Invalid, match="1024 bytes, the limit for its kind"):
            await source.block(block, is_entries=not is_entries)
    finally:
        await sources.close()


async def test_a_gzip_bomb_is_unpacked_no_further_than_the_bound(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    bomb = gzip.compress(b"\0" * (48 * MIB), 1)
    publisher.answers[PATH] = [pour(bomb[: 32 * KIB], content_encoding="gzip")]
    tracemalloc.start()
    try:
        with pytest.raises(Invalid, match="bytes, the limit for its kind"):
            await opened(sources, publisher).block(BLOCK, is_entries=True)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("packing", "message"), [("br", "only gzip was requested"), ("gzip", "and is not")])
async def test_an_unrequested_content_encoding_is_rejected(
    publisher: MaliciousPublisher, sources: HttpSources, packing: str, message: str
) -> None:
    publisher.answers[PATH] = [reply(b"garbage", content_encoding=packing)]
    with pytest.raises(Invalid, match=message):
        await opened(sources, publisher).block(BLOCK, is_entries=True)


@pytest.mark.parametrize("mood", [drip, silence])
async def test_a_slow_drip_ends_when_the_rate_is_missed(publisher: MaliciousPublisher, mood: object) -> None:
    publisher.answers[PATH] = [mood]  # type: ignore[list-item]
    sources = HttpSources(SyncSettings(allow_private=True, grace_s=0.2))
    try:
        with pytest.raises(Unavailable, match="timed out after"):
            await opened(sources, publisher).block(BLOCK, is_entries=True)
    finally:
        await sources.close()


async def test_a_large_block_over_a_slow_line_may_take_longer_than_the_grace(publisher: MaliciousPublisher) -> None:
    data = b"0" * 64 * KIB
    block = cids.of(data, DAG_JSON)
    publisher.answers[f"/ipni/v1/ad/{block}"] = [trickle(data, 2 * KIB)]  # 32 pieces, at least 0.6 s
    sources = HttpSources(SyncSettings(allow_private=True, grace_s=0.5, rate_bytes_s_min=KIB))
    try:
        assert await opened(sources, publisher).block(block, is_entries=True) == data
    finally:
        await sources.close()


async def test_a_redirect_is_followed_a_few_times(publisher: MaliciousPublisher, sources: HttpSources) -> None:
    for hop in range(REDIRECTS_MAX):
        publisher.answers[PATH if hop == 0 else f"/{hop}"] = [reply(status=302, location=f"/{hop + 1}")]
    publisher.answers[f"/{REDIRECTS_MAX}"] = [reply(BODY)]
    assert await opened(sources, publisher).block(BLOCK, is_entries=True) == BODY


async def test_a_redirect_loop_ends(publisher: MaliciousPublisher, sources: HttpSources) -> None:
    publisher.answers[PATH] = [reply(status=301, location=PATH)]
    with pytest.raises(Invalid, match=f"redirects more than {REDIRECTS_MAX} times"):
        await opened(sources, publisher).block(BLOCK, is_entries=True)
    assert len(publisher.requests) == REDIRECTS_MAX + 1


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://[", "http://u:p@127.0.0.1/"])
async def test_a_redirect_leads_to_http_or_nowhere(
    publisher: MaliciousPublisher, sources: HttpSources, location: str
) -> None:
    publisher.answers[PATH] = [reply(status=307, location=location)]
    with pytest.raises(Invalid, match=r"redirects (elsewhere|to)"):
        await opened(sources, publisher).block(BLOCK, is_entries=True)


@pytest.fixture
async def careful() -> AsyncIterator[HttpSources]:
    """Sources with their defaults, but with one address treated as public."""
    http_sources = HttpSources(private=lambda number: number != PUBLIC)
    yield http_sources
    await http_sources.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f.1"])
async def test_a_public_publisher_cannot_lead_to_a_private_address(
    publisher: MaliciousPublisher, careful: HttpSources, host: str
) -> None:
    publisher.answers[PATH] = [reply(BODY)]
    async with malicious_publisher(PUBLIC) as public:
        public.answers[PATH] = [reply(status=302, location=f"http://{host}:{publisher.port}{PATH}")]
        with pytest.raises(Invalid, match=r"private address|not an IP address"):
            await opened(careful, public).block(BLOCK, is_entries=True)
        assert (len(public.requests), publisher.requests) == (1, [])


async def test_a_name_is_judged_by_what_it_resolves_to_when_it_is_used(
    publisher: MaliciousPublisher, careful: HttpSources
) -> None:
    source = careful.open(Peer(KEY.peer_id, (f"/dns4/localhost/tcp/{publisher.port}/http",)))
    with pytest.raises(Invalid, match="localhost is at a private address"):
        await source.head()
    assert publisher.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "/ip4/127.0.0.1/tcp/80/http",
        "/ip4/10.1.2.3/http",
        "/ip4/169.254.169.254/http",
        "/ip4/0.0.0.0/tcp/80/http",
        "/ip6/::1/http",
        "/ip6/fe80::1/http",
        "/ip6/::ffff:192.168.0.1/https",
        "/dns4/127.1/tcp/80/http",
    ],
)
async def test_private_addresses_are_refused_unless_they_are_allowed(address: str) -> None:
    publisher = Peer(KEY.peer_id, (address,))
    with pytest.raises(Invalid, match=r"private address|not an IP address"):
        HttpSources().open(publisher)
    if "127.1" not in address:
        assert HttpSources(SyncSettings(allow_private=True)).open(publisher) is not None


@pytest.mark.parametrize("addresses", [(), ("/ip4/1.2.3.4/tcp/4001",), ("/dns4/example.org/tcp/443/wss", "nonsense")])
async def test_a_publisher_without_an_http_address_cannot_be_read(addresses: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match=r"cannot be read: (it has no address|.*only http and https are supported)"):
        HttpSources().open(Peer(KEY.peer_id, addresses))


async def test_a_path_in_the_address_comes_before_everything(
    publisher: MaliciousPublisher, sources: HttpSources
) -> None:
    publisher.answers[f"/sub/a%20b{PATH}"] = [reply(BODY)]
    address = f"{publisher.address}/http-path/sub%2Fa%20b"
    found: Cid = BLOCK
    assert await sources.open(Peer(KEY.peer_id, (address,))).block(found, is_entries=True) == BODY


async def test_an_unknown_host_name_is_unavailable(sources: HttpSources) -> None:
    source = sources.open(Peer(KEY.peer_id, ("/dns4/publisher.invalid/tcp/80/http",)))
    with pytest.raises(Unavailable, match=r"publisher\.invalid"):
        await source.head()
