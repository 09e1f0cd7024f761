"""Merging: every distinct record, in any arrangement of replicas, and whole provider entries."""

from hypothesis import given
from hypothesis import strategies as st

from argosy.gateway.content.backend_protocol import Lines
from argosy.gateway.content.merge import merge_keys, merge_providers, merge_results, newest, select_requested
from argosy.ipni.formats import metadata
from argosy.ipni.model import ContextSet, ExtendedPeer, ExtendedProviders, Peer, Provider, ProviderResult
from tests.ipni.web.builders import AD, CONTENT, A, B, C, result

RECORDS = st.builds(result, st.sampled_from([A, B, C]), st.sampled_from([b"1", b"2", b"3"]))


def keys(results: list[ProviderResult]) -> set[tuple[str, bytes]]:
    return {(each.provider.id, each.context) for each in results}


@given(st.lists(st.lists(RECORDS, max_size=6), min_size=1, max_size=5))
def test_every_key_of_any_indexer_is_returned_exactly_once(parts: list[list[ProviderResult]]) -> None:
    union = merge_results(parts)
    assert keys(union) == keys([each for part in parts for each in part])
    assert len(union) == len(keys(union))


def test_where_indexers_disagree_the_first_in_the_list_wins() -> None:
    old, new = result(A, b"1", metadata.bitswap()), result(A, b"1", metadata.http())
    assert merge_results([[old], [new, result(B)]]) == [old, result(B)]
    assert merge_results([[new], [old]]) == [new]


def test_records_of_one_indexer_under_one_key_stay_together() -> None:
    both = [result(A, b"1", metadata.bitswap()), result(A, b"1", metadata.http())]
    assert merge_results([both, [both[1]]]) == both
    assert merge_results([[both[0], both[0]]]) == [both[0]]


def test_unrequested_and_unusable_results_are_dropped() -> None:
    useless = ProviderResult(b"", b"", Peer(A, ()))
    found = [(CONTENT, [result(A), useless]), (b"\x12\x01x", [result(B)]), (CONTENT, [result(C)])]
    assert select_requested(found, {CONTENT}) == {CONTENT: [result(A), result(C)]}
    assert select_requested([(CONTENT, [useless])], {CONTENT}) == {}


def test_encrypted_keys_are_returned_once() -> None:
    assert merge_keys([[b"a", b"b"], [b"b", b"c"], []]) == [b"a", b"b", b"c"]


def extended(peer: str) -> ExtendedProviders:
    return ExtendedProviders((ExtendedPeer(peer, ("/ip4/192.0.2.9/tcp/1",)),), {b"c": ContextSet(())})


def test_a_provider_entry_is_taken_unchanged_from_the_indexer_furthest_along_its_chain() -> None:
    """Sets of extended providers from two places in a chain are not mixed."""
    behind = Provider(A, ("/ip4/192.0.2.1/tcp/1",), last_ad_at=10.0, extended=extended(B), frozen_at=AD)
    ahead = Provider(A, ("/ip4/192.0.2.2/tcp/1",), last_ad_at=20.0, extended=extended(C))
    other = Provider(B, last_ad_at=1.0)
    for parts in ([[behind, other], [ahead]], [[ahead], [other, behind]]):
        found = {each.id: each for each in merge_providers(parts)}
        assert found == {A: ahead, B: other}


def test_of_equally_new_entries_one_that_is_not_frozen_is_returned() -> None:
    frozen = Provider(A, last_ad_at=10.0, frozen_at=AD)
    active = Provider(A, last_ad_at=10.0)
    assert newest([frozen, active]) == newest([active, frozen]) == active
    assert newest([]) is None


def split(pieces: list[bytes], bytes_max: int = 8) -> tuple[list[bytes], int]:
    lines = Lines(bytes_max)
    whole = [line for piece in pieces for line in lines.feed(piece)] + lines.end()
    return whole, lines.overlong


def test_lines_are_whole_wherever_they_were_cut() -> None:
    text = b"one\n\ntwo\r\n   \nlast"
    for at in range(len(text)):
        assert split([text[:at], text[at:]]) == ([b"one", b"two\r", b"last"], 0)


def test_a_line_that_does_not_end_is_dropped_and_the_next_is_read() -> None:
    long = b"x" * 30
    for pieces in ([long + b"\nok\n"], [long, long, b"\nok"], [long[:5], long[:5], long + b"\n", b"ok\n"]):
        assert split(pieces) == ([b"ok"], 1)
    assert split([b"ok\n" + long]) == ([b"ok"], 1)
