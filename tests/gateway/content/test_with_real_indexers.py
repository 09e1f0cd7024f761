"""The content gateway over two real indexers on real stores, fed by a real publisher."""

from pathlib import Path

from argosy.ipni.formats import cid, metadata, multihash
from argosy.ipni.formats.bases import base58
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement
from argosy.ipni.web import providers_json, results
from tests.gateway.content.double import LINES, gateway_over
from tests.ipni.web.builders import A
from tests.ipni.web.test_with_the_real_indexer import publishing, staged

CONTENT = [multihash.of(b"%d" % number) for number in range(40)]


async def test_results_of_a_frozen_and_an_active_indexer_are_merged(tmp_path: Path) -> None:
    """One has the beginning of the chain and froze, the other took over from there."""
    async with (
        staged(tmp_path / "old") as old,
        staged(tmp_path / "new", use_assigner=True) as new,
        publishing() as (publisher, peer),
    ):
        first = await publisher.publish(b"first", metadata.bitswap(), CONTENT[:20])
        await old.client.announce(Announcement(first, peer))
        await old.until_indexed(first)
        await old.client.freeze()
        second = await publisher.publish(b"second", metadata.bitswap(), CONTENT[10:])
        await new.client.handoff(A, frozen_id=(await old.client.status()).id, frozen_url=old.url)
        await new.until_indexed(second)
        async with gateway_over(old.url, new.url) as pool:
            for at, contexts in ((0, {b"first"}), (15, {b"first", b"second"}), (30, {b"second"})):
                whole = await pool.get(f"/cid/{Cid(cid.RAW, CONTENT[at])}")
                [(_, found)] = results.decode_json(whole.body)
                assert {each.context for each in found} == contexts
                lines = (await pool.find(CONTENT[at], LINES)).body.splitlines()
                assert {results.decode_line(line).context for line in lines} == contexts
                assert whole.missing == 0
            assert (await pool.find(multihash.of(b"nowhere"))).status == 404
            [provider] = providers_json.decode_providers((await pool.get("/providers")).body)
            assert (provider.id, provider.last_ad) == (A, second)


async def test_the_other_indexer_still_answers_when_one_has_stopped(tmp_path: Path) -> None:
    async with staged(tmp_path / "left") as left, publishing() as (publisher, peer):
        ad = await publisher.publish(b"ctx", metadata.bitswap(), CONTENT)
        async with staged(tmp_path / "right") as right:
            for stage in (left, right):
                await stage.client.announce(Announcement(ad, peer))
                await stage.until_indexed(ad)
            gone = right.url
        async with gateway_over(left.url, gone) as pool:
            answer = await pool.get(f"/multihash/{base58(CONTENT[3])}")
            [(_, [found])] = results.decode_json(answer.body)
            assert (found.provider.id, answer.missing) == (A, 1)
            assert (await pool.find(multihash.of(b"nowhere"))).status == 504
