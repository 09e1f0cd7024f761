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
from tests.ipni.sync.liar import Liar, drip, hang_up, lying, pour, reply, silence, trickle

PUBLIC = "127.0.0.2"
KEY = PrivateKey.generate(random_bytes=bytes(range(32)))
BODY = b'{"Entries":[]}'
BLOCK = cids.of(BODY, DAG_JSON)
PATH = f"/ipni/v1/ad/{BLOCK}"
HEAD = "/ipni/v1/ad/head"


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    async with lying() as found:
        yield found


@pytest.fixture
async def sources() -> AsyncIterator[HttpSources]:
    made = HttpSources(SyncSettings(allow_private=True, grace_s=2.0, entries_bytes_max=64 * KIB))
    yield made
    await made.close()


def opened(sources: HttpSources, *liars: Liar, key: PrivateKey = KEY) -> HttpSource:
    return sources.open(Peer(key.peer_id, tuple(liar.address for liar in liars)))


async def test_a_head_is_what_the_publisher_has_signed(liar: Liar, sources: HttpSources) -> None:
    liar.answers[HEAD] = [reply(sign_head(BLOCK, KEY))]
    found = await opened(sources, liar).head()
    assert found is not None
    assert (found.head, found.signer) == (BLOCK, KEY.peer_id)


async def test_a_publisher_without_advertisements_has_no_head(liar: Liar, sources: HttpSources) -> None:
    liar.answers[HEAD] = [reply(status=204)]
    assert await opened(sources, liar).head() is None


async def test_a_head_signed_by_another_peer_is_rejected(liar: Liar, sources: HttpSources) -> None:
    stranger = PrivateKey.generate(random_bytes=b"s" * 32)
    liar.answers[HEAD] = [reply(sign_head(BLOCK, stranger))]
    with pytest.raises(Invalid, match=f"is signed by {stranger.peer_id}"):
        await opened(sources, liar).head()


async def test_a_head_whose_signature_is_of_another_head_is_refused(liar: Liar, sources: HttpSources) -> None:
    forged = sign_head(BLOCK, KEY).replace(str(BLOCK).encode(), str(cids.of(b"x", DAG_JSON)).encode())
    liar.answers[HEAD] = [reply(forged)]
    with pytest.raises(Invalid, match="the signature of"):
        await opened(sources, liar).head()


@pytest.mark.parametrize(("is_entries", "hint"), [(True, "entrychunk"), (False, "advertisement")])
async def test_a_block_request_contains_a_hint_of_its_type(
    liar: Liar, sources: HttpSources, is_entries: bool, hint: str
) -> None:
    liar.answers[PATH] = [reply(BODY, content_type="text/html")]
    assert await opened(sources, liar).block(BLOCK, is_entries=is_entries) == BODY
    assert liar.asked[0][1]["ipni-cid-schema-type"] == hint


@pytest.mark.parametrize("code", [BLAKE2B_256, SHA2_512])
async def test_blocks_of_other_hash_functions_are_checked_too(liar: Liar, sources: HttpSources, code: int) -> None:
    block = cids.of(BODY, DAG_JSON, code)
    liar.answers[f"/ipni/v1/ad/{block}"] = [reply(BODY), reply(BODY + b" ")]
    source = opened(sources, liar)
    assert await source.block(block, is_entries=True) == BODY
    with pytest.raises(Invalid, match="the hash differs"):
        await source.block(block, is_entries=True)


async def test_a_block_with_another_hash_is_rejected_and_not_requested_again(liar: Liar, sources: HttpSources) -> None:
    liar.answers[PATH] = [reply(b'{"Entries":[0]}')]
    with pytest.raises(Invalid, match="served other bytes"):
        await opened(sources, liar).block(BLOCK, is_entries=True)
    assert liar.paths() == [PATH]


async def test_a_packed_block_is_unpacked(liar: Liar, sources: HttpSources) -> None:
    twice = gzip.compress(BODY[:5]) + gzip.compress(BODY[5:])
    liar.answers[PATH] = [reply(gzip.compress(BODY), content_encoding="gzip"), reply(twice, content_encoding="gzip")]
    source = opened(sources, liar)
    assert [await source.block(BLOCK, is_entries=True) for _ in range(2)] == [BODY, BODY]


@pytest.mark.parametrize("status", [404, 403])
async def test_the_older_form_of_paths_is_tried_and_cached(liar: Liar, sources: HttpSources, status: int) -> None:
    liar.answers[PATH] = [reply(status=status)]
    liar.answers[f"/{BLOCK}"] = [reply(BODY)]
    source = opened(sources, liar)
    assert [await source.block(BLOCK, is_entries=True) for _ in range(2)] == [BODY, BODY]
    assert liar.paths() == [PATH, f"/{BLOCK}", f"/{BLOCK}"]


async def test_a_block_a_publisher_does_not_have_is_not_found(liar: Liar, sources: HttpSources) -> None:
    source = opened(sources, liar)
    with pytest.raises(NotFound, match="the publisher does not have it"):
        await source.block(BLOCK, is_entries=True)
    assert liar.paths() == [PATH, f"/{BLOCK}"]


@pytest.mark.parametrize("status", [500, 503, 429, 418])
async def test_a_failing_publisher_is_unavailable_with_its_status(
    liar: Liar, sources: HttpSources, status: int
) -> None:
    liar.answers[PATH] = [reply(b"x" * 1000, status)]
    with pytest.raises(BadStatus, match=str(status)) as failure:
        await opened(sources, liar).block(BLOCK, is_entries=True)
    assert failure.value.code == status


async def test_a_publisher_that_forbids_both_forms_is_unavailable(liar: Liar, sources: HttpSources) -> None:
    liar.answers[PATH] = liar.answers[f"/{BLOCK}"] = [reply(status=403)]
    with pytest.raises(BadStatus, match="answered 403"):
        await opened(sources, liar).block(BLOCK, is_entries=True)


async def test_a_connection_that_ends_is_tried_once_more(liar: Liar, sources: HttpSources) -> None:
    liar.answers[PATH] = [hang_up, reply(BODY)]
    assert await opened(sources, liar).block(BLOCK, is_entries=True) == BODY
    liar.answers[PATH] = [hang_up]
    with pytest.raises(Unavailable, match="cannot be read"):
        await opened(sources, liar).block(BLOCK, is_entries=True)
    assert len(liar.asked) <= 6  # the HTTP library also retries


async def test_a_truncated_body_is_unavailable_not_a_wrong_block(liar: Liar, sources: HttpSources) -> None:
    liar.answers[PATH] = [reply(BODY, length=1000)]
    with pytest.raises(Unavailable, match="cannot be read"):
        await opened(sources, liar).block(BLOCK, is_entries=True)
    liar.answers[PATH] = [reply(gzip.compress(BODY)[:-9], content_encoding="gzip")]
    with pytest.raises(Unavailable, match="in the middle of its gzip"):
        await opened(sources, liar).block(BLOCK, is_entries=True)


async def test_the_next_address_is_tried_and_the_answering_one_is_preferred(liar: Liar, sources: HttpSources) -> None:
    async with lying() as good:
        good.answers[PATH] = [reply(BODY)]
        liar.answers[PATH] = [reply(status=502)]
        nobody = Liar("127.0.0.1", port=1)
        source = opened(sources, nobody, liar, good)
        assert [await source.block(BLOCK, is_entries=True) for _ in range(3)] == [BODY] * 3
        assert (len(liar.asked), len(good.asked)) == (1, 3)


async def test_a_large_answer_is_refused_before_it_is_read(liar: Liar, sources: HttpSources) -> None:
    liar.answers[PATH] = [pour(b"x" * KIB)]
    with pytest.raises(Invalid, match=f"more than {64 * KIB} bytes"):
        await opened(sources, liar).block(BLOCK, is_entries=True)


@pytest.mark.parametrize("is_entries", [True, False])
async def test_each_kind_of_block_has_its_own_bound(liar: Liar, is_entries: bool) -> None:
    data = b"0" * (2 * KIB)
    block = cids.of(data, DAG_JSON)
    liar.answers[f"/ipni/v1/ad/{block}"] = [reply(data)]
    bounds = {"ad_bytes_max": KIB} if is_entries else {"entries_bytes_max": KIB}
    sources = HttpSources(SyncSettings(allow_private=True, **bounds))
    try:
        source = opened(sources, liar)
        assert await source.block(block, is_entries=is_entries) == data
        with pytest.raises(Invalid, match="1024 bytes, the limit for its kind"):
            await source.block(block, is_entries=not is_entries)
    finally:
        await sources.close()


async def test_a_gzip_bomb_is_unpacked_no_further_than_the_bound(liar: Liar, sources: HttpSources) -> None:
    bomb = gzip.compress(b"\0" * (48 * MIB), 1)
    liar.answers[PATH] = [pour(bomb[: 32 * KIB], content_encoding="gzip")]
    tracemalloc.start()
    try:
        with pytest.raises(Invalid, match="bytes, the limit for its kind"):
            await opened(sources, liar).block(BLOCK, is_entries=True)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("packing", "said"), [("br", "only gzip was requested"), ("gzip", "and is not")])
async def test_an_unrequested_content_encoding_is_rejected(
    liar: Liar, sources: HttpSources, packing: str, said: str
) -> None:
    liar.answers[PATH] = [reply(b"garbage", content_encoding=packing)]
    with pytest.raises(Invalid, match=said):
        await opened(sources, liar).block(BLOCK, is_entries=True)


@pytest.mark.parametrize("mood", [drip, silence])
async def test_a_slow_drip_ends_when_the_rate_is_missed(liar: Liar, mood: object) -> None:
    liar.answers[PATH] = [mood]  # type: ignore[list-item]
    sources = HttpSources(SyncSettings(allow_private=True, grace_s=0.2))
    try:
        with pytest.raises(Unavailable, match="timed out after"):
            await opened(sources, liar).block(BLOCK, is_entries=True)
    finally:
        await sources.close()


async def test_a_large_block_over_a_slow_line_may_take_longer_than_the_grace(liar: Liar) -> None:
    data = b"0" * 64 * KIB
    block = cids.of(data, DAG_JSON)
    liar.answers[f"/ipni/v1/ad/{block}"] = [trickle(data, 2 * KIB)]  # 32 pieces, at least 0.6 s
    sources = HttpSources(SyncSettings(allow_private=True, grace_s=0.5, rate_bytes_s_min=KIB))
    try:
        assert await opened(sources, liar).block(block, is_entries=True) == data
    finally:
        await sources.close()


async def test_a_redirect_is_followed_a_few_times(liar: Liar, sources: HttpSources) -> None:
    for hop in range(REDIRECTS_MAX):
        liar.answers[PATH if hop == 0 else f"/{hop}"] = [reply(status=302, location=f"/{hop + 1}")]
    liar.answers[f"/{REDIRECTS_MAX}"] = [reply(BODY)]
    assert await opened(sources, liar).block(BLOCK, is_entries=True) == BODY


async def test_a_redirect_loop_ends(liar: Liar, sources: HttpSources) -> None:
    liar.answers[PATH] = [reply(status=301, location=PATH)]
    with pytest.raises(Invalid, match=f"redirects more than {REDIRECTS_MAX} times"):
        await opened(sources, liar).block(BLOCK, is_entries=True)
    assert len(liar.asked) == REDIRECTS_MAX + 1


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://[", "http://u:p@127.0.0.1/"])
async def test_a_redirect_leads_to_http_or_nowhere(liar: Liar, sources: HttpSources, location: str) -> None:
    liar.answers[PATH] = [reply(status=307, location=location)]
    with pytest.raises(Invalid, match=r"redirects (elsewhere|to)"):
        await opened(sources, liar).block(BLOCK, is_entries=True)


@pytest.fixture
async def careful() -> AsyncIterator[HttpSources]:
    """Sources with their defaults, but with one address treated as public."""
    made = HttpSources(private=lambda number: number != PUBLIC)
    yield made
    await made.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f.1"])
async def test_a_public_publisher_cannot_lead_to_a_private_address(liar: Liar, careful: HttpSources, host: str) -> None:
    liar.answers[PATH] = [reply(BODY)]
    async with lying(PUBLIC) as public:
        public.answers[PATH] = [reply(status=302, location=f"http://{host}:{liar.port}{PATH}")]
        with pytest.raises(Invalid, match=r"private address|not an IP address"):
            await opened(careful, public).block(BLOCK, is_entries=True)
        assert (len(public.asked), liar.asked) == (1, [])


async def test_a_name_is_judged_by_what_it_resolves_to_when_it_is_used(liar: Liar, careful: HttpSources) -> None:
    source = careful.open(Peer(KEY.peer_id, (f"/dns4/localhost/tcp/{liar.port}/http",)))
    with pytest.raises(Invalid, match="localhost is at a private address"):
        await source.head()
    assert liar.asked == []


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


async def test_a_path_in_the_address_comes_before_everything(liar: Liar, sources: HttpSources) -> None:
    liar.answers[f"/sub/a%20b{PATH}"] = [reply(BODY)]
    address = f"{liar.address}/http-path/sub%2Fa%20b"
    found: Cid = BLOCK
    assert await sources.open(Peer(KEY.peer_id, (address,))).block(found, is_entries=True) == BODY


async def test_an_unknown_host_name_is_unavailable(sources: HttpSources) -> None:
    source = sources.open(Peer(KEY.peer_id, ("/dns4/publisher.invalid/tcp/80/http",)))
    with pytest.raises(Unavailable, match=r"publisher\.invalid"):
        await source.head()
