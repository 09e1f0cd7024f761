"""Which indexes a node makes, renews, checks, keeps and gives up."""

import pytest

from argosy.ownership.model import SUCCESSOR, Unit
from argosy.search.fleet import effects as do
from argosy.search.fleet import events as saw
from argosy.search.fleet.held_repo import Stage
from argosy.search.fleet.model import Phase
from argosy.search.fleet.statuses import phase_of, status_of
from tests.search.fleet.making import BUDGET_BYTES, MIB, Bench, figures, heads, of_kind, only, spec


def stage(bench: Bench, name: str = "a") -> Stage | None:
    making = bench.library.volumes[name].making
    return None if making is None else making.stage


# -- a first index -------------------------------------------------------------------------------------------------


def test_a_gained_unit_is_fetched_built_put_on_the_shelf_admitted_and_noted() -> None:
    bench = Bench()
    order = only(bench.gain(), do.Fetch)
    assert order.spec.name == "a"
    build = only(bench.tell(saw.Fetched(order.number)), do.Build)
    assert not build.is_renewal
    effects = bench.tell(saw.IndexProvisioned(build.number, figures(5 * MIB)))
    assert effects == [
        do.Put(order.number, "a"),
        do.Admit("a", 5 * MIB),
        do.NoteIndexed("a", "c1", 5 * MIB),
    ]
    assert bench.library.memory.held_bytes == 5 * MIB


def test_fetches_and_builds_are_bounded_and_the_rest_waits_in_line() -> None:
    bench = Bench(fetches_max=2, builds_max=1)
    orders = [bench.gain(name) for name in "abc"]
    assert [len(of_kind(each, do.Fetch)) for each in orders] == [1, 1, 0]
    assert stage(bench, "c") is Stage.WAITING
    effects = bench.tell(saw.Fetched(only(orders[0], do.Fetch).number))
    assert only(effects, do.Build)
    assert only(effects, do.Fetch).spec.name == "c"  # the build has left a place
    assert of_kind(bench.tell(saw.Fetched(only(orders[1], do.Fetch).number)), do.Build) == []
    assert stage(bench, "b") is Stage.FETCHED


def test_a_first_failure_is_noted_and_refused_and_the_unit_goes() -> None:
    bench = Bench()
    order = only(bench.gain(), do.Fetch)
    effects = bench.tell(saw.ProvisionFailed(order.number, "needs credentials"))
    assert effects == [do.NoteFailed("a", "needs credentials"), do.Refuse("a", "needs credentials")]
    assert phase_of(bench.library.volumes["a"]) is Phase.FAILED
    assert bench.tell(saw.UnitLost("a")) == [do.Forget("a")]
    assert bench.library.volumes == {}
    assert only(bench.gain(), do.Fetch)  # won again later: tried again


def test_one_that_fails_does_not_hold_up_the_others() -> None:
    bench = Bench(fetches_max=1)
    order = only(bench.gain("a"), do.Fetch)
    bench.gain("b")
    effects = bench.tell(saw.ProvisionFailed(order.number, "gone"))
    assert only(effects, do.Fetch).spec.name == "b"


def test_the_finished_index_is_taken_from_a_node_that_has_it_and_looked_after_at_once() -> None:
    bench = Bench()
    order = only(bench.gain(replica=SUCCESSOR, sibling="n2:6070", footprint_bytes=MIB), do.Receive)
    assert order.address == "n2:6070"
    effects = bench.tell(saw.IndexProvisioned(order.number, figures()))
    assert of_kind(effects, do.NoteIndexed) == []  # whoever built it has done so
    assert only(effects, do.Admit)
    assert only(effects, do.CheckOrigin)  # it may be old


def test_what_could_not_be_received_is_made_from_its_origin() -> None:
    bench = Bench()
    order = only(bench.gain(sibling="n2:6070"), do.Receive)
    effects = bench.tell(saw.ProvisionFailed(order.number, "n2 is gone"))
    assert of_kind(effects, do.Refuse) == []
    assert only(bench.made(effects), do.Admit)


def test_a_unit_that_is_already_kept_for_a_sibling_slot_is_admitted_at_once() -> None:
    bench = Bench()
    bench.keep(replica=SUCCESSOR)
    assert only(bench.gain(replica=0), do.Admit).memory_bytes == MIB
    assert bench.library.volumes["a"].unit == Unit("a")


def test_a_unit_lost_while_it_is_made_stops_the_making_and_its_place_is_free_when_it_has_ended() -> None:
    bench = Bench(fetches_max=1)
    order = only(bench.gain("a"), do.Fetch)
    bench.gain("b")
    assert bench.tell(saw.UnitLost("a")) == [do.Stop(order.number), do.Forget("a")]
    assert only(bench.tell(saw.ProvisionStopped(order.number)), do.Fetch).spec.name == "b"


def test_an_index_finished_after_it_was_given_up_is_thrown_away() -> None:
    bench = Bench()
    build = bench.fetched(bench.gain())
    bench.tell(saw.UnitLost("a"))
    assert bench.tell(saw.IndexProvisioned(build.number, figures())) == [do.Discard(build.number)]


# -- too large -----------------------------------------------------------------------------------------------------


def test_what_alone_exceeds_the_budget_is_refused_and_its_size_is_noted() -> None:
    bench = Bench()
    effects = bench.made(bench.gain(), BUDGET_BYTES + 1)
    noted = only(effects, do.NoteIndexed)
    assert noted.footprint_bytes == BUDGET_BYTES + 1
    assert noted.but == only(effects, do.Refuse).reason
    assert "raise search.budget_bytes" in noted.but
    assert only(effects, do.Discard)
    assert bench.library.memory.held_bytes == 0


def test_what_is_known_to_be_too_large_is_not_even_fetched_unless_somebody_asks() -> None:
    bench = Bench()
    too_large = BUDGET_BYTES + 1
    effects = bench.gain(footprint_bytes=too_large, last_indexed_at=5)
    assert of_kind(effects, do.Fetch) == []
    assert only(effects, do.Refuse)
    bench.tell(saw.UnitLost("a"))
    assert only(bench.gain(footprint_bytes=too_large, last_indexed_at=5, reindex_requested_at=6), do.Fetch)


def test_an_index_that_outgrows_the_budget_leaves_the_old_one_in_place() -> None:
    bench = Bench()
    bench.keep()
    effects = bench.made(bench.look("c2"), BUDGET_BYTES + 1, "c2")
    assert of_kind(effects, do.Refuse) + of_kind(effects, do.Withdraw) + of_kind(effects, do.Release) == []
    volume = bench.library.volumes["a"]
    assert volume.memory_bytes == MIB
    assert "give a node more memory" in volume.reason


# -- keeping fresh -------------------------------------------------------------------------------------------------


def test_new_commits_lead_to_a_renewal_and_the_old_index_stays_until_then() -> None:
    bench = Bench()
    bench.keep()
    effects = bench.look("c2")
    assert of_kind(effects, do.Withdraw) == []
    assert bench.fetched(effects).is_renewal
    assert phase_of(bench.library.volumes["a"]) is Phase.READY
    number = bench.library.volumes["a"].making
    assert number is not None
    effects = bench.tell(saw.IndexProvisioned(number.number, figures(2 * MIB, "c2")))
    assert effects == [do.Put(number.number, "a"), do.NoteIndexed("a", "c2", 2 * MIB)]


def test_nothing_new_leads_to_nothing_but_the_next_look() -> None:
    bench = Bench(refresh_s=60.0)
    bench.keep()
    assert bench.look("c1") == []
    assert of_kind(bench.wait(59.0), do.CheckOrigin) == []
    assert only(bench.wait(2.0), do.CheckOrigin)


def test_looks_are_bounded_and_none_is_forgotten() -> None:
    bench = Bench(looks_max=2, fetches_max=8, builds_max=8, check_s=10_000.0)
    for name in "abcde":
        bench.keep(name)
    looks = of_kind(bench.wait(100.0), do.CheckOrigin)
    assert len(looks) == 2
    seen = [each.spec.name for each in looks]
    while looks:
        more = of_kind(bench.tell(saw.OriginChecked(looks.pop(0).number, heads())), do.CheckOrigin)
        seen += [each.spec.name for each in more if each.spec.name not in seen]
        looks += more if len(seen) < 5 else []
    assert sorted(seen) == list("abcde")


def test_a_push_that_was_heard_of_leads_to_a_look_at_once() -> None:
    bench = Bench()
    bench.keep()
    assert only(bench.tell(saw.PushReceived("a")), do.CheckOrigin)


def test_a_push_heard_of_during_a_look_leads_to_another_look() -> None:
    bench = Bench()
    bench.keep()
    first = only(bench.tell(saw.PushReceived("a")), do.CheckOrigin)
    assert bench.tell(saw.PushReceived("a")) == []
    assert only(bench.tell(saw.OriginChecked(first.number, heads())), do.CheckOrigin)


def test_a_push_heard_of_during_a_fetch_leads_to_a_look_after_it() -> None:
    bench = Bench()
    effects = bench.gain()
    bench.tell(saw.PushReceived("a"))
    assert only(bench.made(effects), do.CheckOrigin)


def test_a_push_to_a_repository_of_another_node_is_nothing_to_us() -> None:
    assert Bench().tell(saw.PushReceived("b")) == []


def test_a_folder_that_the_origin_calls_by_another_word_is_made_once_more_and_then_rests() -> None:
    bench = Bench(check_s=10_000.0)
    effects = bench.gain()
    bench.tell(saw.IndexProvisioned(bench.fetched(effects).number, saw.IndexStats(MIB, ())))
    fingerprint = heads("mtime:1", "folder")
    first = only(bench.wait(100.0), do.CheckOrigin)
    build = bench.fetched(bench.tell(saw.OriginChecked(first.number, fingerprint)))
    bench.tell(saw.IndexProvisioned(build.number, saw.IndexStats(MIB, ())))
    second = only(bench.wait(100.0), do.CheckOrigin)
    assert bench.tell(saw.OriginChecked(second.number, fingerprint)) == []
    assert stage(bench) is None


def test_a_fetch_that_found_more_than_the_look_is_not_taken_for_what_the_look_saw() -> None:
    bench = Bench(check_s=10_000.0)
    bench.keep()
    bench.made(bench.look("c2"), version="c3")
    assert bench.look("c3") == []
    assert only(bench.look("c2"), do.Fetch)  # pushed back


@pytest.mark.parametrize("step", ["look", "fetch", "build"])
def test_a_failed_refresh_keeps_the_index_tells_why_and_is_tried_again_with_back_off(step: str) -> None:
    bench = Bench(retry_first_s=8.0, retry_ceiling_s=900.0, check_s=100_000.0)
    bench.keep()
    waits = []
    look = only(bench.wait(100.0), do.CheckOrigin)
    for _ in range(9):
        began = bench.now
        effects = fail(bench, look, step)
        assert effects == [do.NoteFailed("a", "away")]
        volume = bench.library.volumes["a"]
        assert (volume.memory_bytes, volume.reason) == (MIB, "away")
        retry_at = status_of(bench.library, volume, 0.0, 1000.0).retry_at - 1000.0
        waits.append(retry_at - began)
        look = only(bench.wait(retry_at - began), do.CheckOrigin)
    assert waits == [0.75 * each for each in (8, 16, 32, 64, 128, 256, 512, 900, 900)]
    noted = bench.tell(saw.OriginChecked(look.number, heads()))
    assert noted == [do.NoteIndexed("a", "c1", MIB)]  # clears the error in the catalog
    assert bench.library.volumes["a"].reason == ""


def fail(bench: Bench, look: do.CheckOrigin, step: str) -> list[do.Effect]:
    if step == "look":
        return bench.tell(saw.OriginCheckFailed(look.number, "away"))
    effects = bench.tell(saw.OriginChecked(look.number, heads("c2")))
    number = only(effects, do.Fetch).number if step == "fetch" else bench.fetched(effects).number
    return bench.tell(saw.ProvisionFailed(number, "away"))


# -- what operators ask for ----------------------------------------------------------------------------------------


def test_other_branches_are_indexed_and_the_old_index_stays_until_then() -> None:
    bench = Bench()
    bench.keep()
    effects = bench.change(branches=("dev",))
    assert only(effects, do.Fetch).spec.branches == ("dev",)
    assert bench.fetched(effects).is_renewal
    assert bench.library.memory.held_bytes == MIB


def test_another_address_is_indexed_anew() -> None:
    bench = Bench()
    bench.keep()
    assert not bench.fetched(bench.change(url="https://host/elsewhere")).is_renewal


def test_a_change_of_address_while_the_old_one_is_fetched_begins_again() -> None:
    bench = Bench()
    order = only(bench.gain(), do.Fetch)
    effects = bench.change(url="https://host/elsewhere")
    assert only(effects, do.Stop).number == order.number
    assert only(effects, do.Fetch).spec.url == "https://host/elsewhere"
    assert bench.tell(saw.Fetched(order.number)) == []


def test_a_change_of_address_that_is_taken_back_leaves_the_index_looked_after() -> None:
    bench = Bench(check_s=10_000.0)
    bench.keep()
    order = only(bench.change(url="https://host/elsewhere"), do.Fetch)
    assert bench.change() == [do.Stop(order.number)]
    assert only(bench.wait(100.0), do.CheckOrigin)


def test_a_push_noted_in_the_catalog_leads_to_a_look_at_once() -> None:
    bench = Bench()
    bench.keep()
    assert only(bench.change(pushed_at=7), do.CheckOrigin)
    assert bench.change(pushed_at=7, failures=1) == []


def test_a_reindex_shares_nothing_with_the_old_index_and_is_made_once() -> None:
    bench = Bench(check_s=10_000.0)
    bench.keep()
    effects = bench.change(reindex_requested_at=5)
    assert not bench.fetched(effects).is_renewal
    bench.tell(saw.IndexProvisioned(only(effects, do.Fetch).number, figures()))
    assert bench.change(reindex_requested_at=5, footprint_bytes=MIB) == []
    assert stage(bench) is None


def test_a_reindex_asked_for_while_a_renewal_is_fetched_comes_after_it() -> None:
    bench = Bench()
    bench.keep()
    renewal = bench.look("c2")
    assert bench.change(reindex_requested_at=5) == []
    again = bench.made(renewal, version="c2")
    assert not bench.fetched(again).is_renewal


def test_a_reindex_that_failed_is_still_owed() -> None:
    bench = Bench(check_s=10_000.0)
    bench.keep()
    order = only(bench.change(reindex_requested_at=5), do.Fetch)
    bench.tell(saw.ProvisionFailed(order.number, "away"))
    assert not bench.fetched(bench.wait(20.0)).is_renewal


def test_a_received_index_older_than_the_reindex_asked_for_is_made_anew() -> None:
    bench = Bench()
    asked = {"footprint_bytes": MIB, "last_indexed_at": 3, "reindex_requested_at": 4}
    order = only(bench.gain(sibling="n2:1", **asked), do.Receive)
    effects = bench.tell(saw.IndexProvisioned(order.number, figures()))
    assert only(effects, do.Admit)
    assert not bench.fetched(effects).is_renewal


def test_a_repository_taken_out_of_the_catalog_is_off_the_shelf_at_once() -> None:
    bench = Bench()
    bench.keep()
    assert bench.tell(saw.SpecChanged("a", None)) == [do.Withdraw("a", is_unwanted=True)]
    assert bench.library.memory.held_bytes == 0
    assert bench.library.deadline() is None
    assert bench.tell(saw.UnitLost("a")) == [do.Forget("a")]


def test_a_repository_that_is_wished_for_again_before_its_lease_has_gone_is_made_again() -> None:
    bench = Bench()
    bench.keep()
    bench.tell(saw.SpecChanged("a", None))
    assert only(bench.made(bench.change()), do.Put)


def test_a_repository_taken_out_while_it_is_made_is_refused() -> None:
    bench = Bench()
    order = only(bench.gain(), do.Fetch)
    effects = bench.tell(saw.SpecChanged("a", None))
    assert only(effects, do.Stop).number == order.number
    assert only(effects, do.Refuse)


def test_a_unit_that_nobody_wishes_for_is_refused() -> None:
    effects = Bench().tell(saw.UnitGained(Unit("a"), None))
    assert "no longer in the catalog" in only(effects, do.Refuse).reason


# -- checks --------------------------------------------------------------------------------------------------------


def test_each_index_is_checked_in_its_turn_one_at_a_time() -> None:
    bench = Bench(check_s=600.0, refresh_s=1e6, fetches_max=8)
    bench.keep("a")
    bench.keep("b")
    first = only(bench.wait(1000.0), do.VerifyIndex)
    second = only(bench.tell(saw.IndexVerified(first.number, is_sound=True)), do.VerifyIndex)
    assert {first.name, second.name} == {"a", "b"}
    bench.tell(saw.IndexVerified(second.number, is_sound=True))
    assert only(bench.wait(601.0), do.VerifyIndex).name == first.name


def test_a_damaged_index_goes_at_once_and_is_made_anew_from_its_origin() -> None:
    bench = Bench(check_s=600.0, refresh_s=1e6)
    bench.keep()
    check = only(bench.wait(1000.0), do.VerifyIndex)
    effects = bench.tell(saw.IndexVerified(check.number, is_sound=False))
    assert only(effects, do.Withdraw) == do.Withdraw("a")
    assert phase_of(bench.library.volumes["a"]) is Phase.FETCHING
    assert not bench.fetched(effects).is_renewal
    assert (
        of_kind(bench.tell(saw.IndexProvisioned(only(effects, do.Fetch).number, figures())), do.Admit) == []
    )  # it was told


def test_a_damaged_index_that_cannot_be_made_again_here_is_released() -> None:
    bench = Bench(check_s=600.0, refresh_s=1e6)
    bench.keep()
    check = only(bench.wait(1000.0), do.VerifyIndex)
    order = only(bench.tell(saw.IndexVerified(check.number, is_sound=False)), do.Fetch)
    effects = bench.tell(saw.ProvisionFailed(order.number, "away"))
    assert only(effects, do.Release) == do.Release("a", "away", is_eviction=False)


def test_a_renewal_that_may_share_the_damage_is_begun_again() -> None:
    bench = Bench(check_s=600.0, refresh_s=700.0)
    bench.keep()
    check, look = only(bench.wait(650.0), do.VerifyIndex), only(bench.wait(100.0), do.CheckOrigin)
    build = bench.fetched(bench.tell(saw.OriginChecked(look.number, heads("c2"))))
    effects = bench.tell(saw.IndexVerified(check.number, is_sound=False))
    assert only(effects, do.Stop).number == build.number
    assert not bench.fetched(effects).is_renewal


def test_a_sound_index_that_was_replaced_during_its_check_says_nothing_of_the_new_one() -> None:
    bench = Bench(check_s=600.0, refresh_s=700.0)
    bench.keep()
    check, look = only(bench.wait(650.0), do.VerifyIndex), only(bench.wait(100.0), do.CheckOrigin)
    bench.made(bench.tell(saw.OriginChecked(look.number, heads("c2"))), version="c2")
    assert bench.tell(saw.IndexVerified(check.number, is_sound=True)) == []
    assert of_kind(bench.wait(1000.0), do.VerifyIndex)


def test_what_was_renewed_from_a_damaged_index_during_its_check_goes_with_it() -> None:
    bench = Bench(check_s=600.0, refresh_s=700.0)
    bench.keep()
    check, look = only(bench.wait(650.0), do.VerifyIndex), only(bench.wait(100.0), do.CheckOrigin)
    bench.made(bench.tell(saw.OriginChecked(look.number, heads("c2"))), version="c2")
    effects = bench.tell(saw.IndexVerified(check.number, is_sound=False))
    assert only(effects, do.Withdraw).name == "a"
    assert not bench.fetched(effects).is_renewal


# -- memory --------------------------------------------------------------------------------------------------------


def test_above_the_high_watermark_the_coldest_go_down_to_the_low_one() -> None:
    bench = Bench(high_watermark=0.9, low_watermark=0.5, refresh_s=1e6, check_s=1e6)
    for name in "abcd":
        bench.keep(name, 220 * MIB)
        bench.wait(100.0)
    bench.library.traffic.note(["a"], bench.now)
    assert of_kind(bench.keep("e", 40 * MIB), do.Release) != []
    assert [name for name, volume in bench.library.volumes.items() if volume.is_leaving] == ["b", "c"]
    released = bench.library.volumes["b"]
    assert "evicted" in released.reason
    assert bench.library.memory.held_bytes == 920 * MIB  # until they are dropped
    bench.tell(saw.UnitLost("b"))
    assert bench.library.memory.held_bytes == 700 * MIB
    assert bench.library.free_bytes() == 200 * MIB


def test_the_pinned_stay_whatever_happens_and_unpinning_takes_effect() -> None:
    bench = Bench(refresh_s=1e6, check_s=1e6)
    bench.keep("a", 600 * MIB, is_pinned=True)
    assert of_kind(bench.keep("b", 600 * MIB, is_pinned=True), do.Release) == []
    effects = bench.change("a", is_pinned=False)
    assert only(effects, do.Release).name == "a"


def test_room_is_made_before_a_known_large_one_is_built() -> None:
    bench = Bench(refresh_s=1e6, check_s=1e6)
    bench.keep("a", 600 * MIB)
    bench.wait(100.0)
    order = only(bench.gain("b", footprint_bytes=500 * MIB), do.Fetch)
    effects = bench.tell(saw.Fetched(order.number))
    assert only(effects, do.Release).name == "a"


def test_what_is_offered_leaves_room_for_the_watermark_and_for_renewals() -> None:
    bench = Bench(high_watermark=0.9)
    assert bench.library.free_bytes() == 900 * MIB
    bench.keep("a", 200 * MIB)
    assert bench.library.free_bytes() == 700 * MIB
    bench.look("c2")
    assert bench.library.free_bytes() == 500 * MIB


# -- snapshots and what is told ------------------------------------------------------------------------------------


def test_a_very_large_index_is_saved_and_restored_before_anything_else_is_tried() -> None:
    bench = Bench(snapshot_dir="x", snapshot_min_bytes=100 * MIB)
    assert only(bench.keep("a", 100 * MIB), do.Save).name == "a"
    assert of_kind(bench.keep("b", 99 * MIB), do.Save) == []
    bench.tell(saw.UnitLost("a"))
    order = only(bench.gain("a", footprint_bytes=100 * MIB, sibling="n2:1"), do.Restore)
    effects = bench.tell(saw.ProvisionFailed(order.number, "it is of another time"))
    assert only(effects, do.Receive).address == "n2:1"


def test_what_is_told_of_a_repository() -> None:
    bench = Bench()
    bench.now = 100.0
    bench.tell(saw.UnitGained(Unit("a", 1), spec("a", is_pinned=True), None, claim_latency_s=2.5))
    making = bench.library.volumes["a"].making
    assert making is not None
    told = status_of(bench.library, bench.library.volumes["a"], 0.25, 1000.0)
    assert (told.phase, told.progress, told.replica, told.is_pinned) == (Phase.FETCHING, 0.25, 1, True)
    bench.tell(saw.Fetched(making.number))
    bench.tell(saw.IndexProvisioned(making.number, figures(MIB, documents=3, content_bytes=7, index_time_ms=9.0)))
    bench.now = 130.0
    bench.library.traffic.note(["a"], bench.now)
    told = status_of(bench.library, bench.library.volumes["a"], 0.0, 1000.0)
    assert (told.phase, told.progress, told.documents, told.content_bytes) == (Phase.READY, 1.0, 3, 7)
    assert (told.indexed_at, told.last_served_at, told.searches) == (1100.0, 1130.0, 1)
    assert (told.claim_latency_s, told.index_time_ms, told.branches) == (2.5, 9.0, heads())
