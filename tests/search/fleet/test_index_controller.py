"""Which indexes a node makes, renews, verifications, keeps and gives up."""

import pytest

from argosy.ownership.model import SUCCESSOR, Unit
from argosy.search.fleet.effects import (
    Admit,
    Build,
    CheckOrigin,
    DiscardIndex,
    Effect,
    Fetch,
    Forget,
    LoadIndex,
    Receive,
    RecordFailure,
    RecordIndexed,
    Refuse,
    Release,
    Restore,
    Save,
    Stop,
    UnloadIndex,
    VerifyIndex,
)
from argosy.search.fleet.events import (
    IndexProvisioned,
    IndexStats,
    IndexVerified,
    OriginChecked,
    OriginCheckFailed,
    ProvisionFailed,
    ProvisionStopped,
    PushReceived,
    SourceFetched,
    SpecChanged,
    UnitGained,
    UnitLost,
)
from argosy.search.fleet.held_repo import JobStage
from argosy.search.fleet.model import Phase
from argosy.search.fleet.search_node import phase_of, status_of
from tests.search.fleet.controller_bench import BUDGET_BYTES, MIB, Bench, heads, of_kind, only, spec, stats


def stage(bench: Bench, name: str = "a") -> JobStage | None:
    job = bench.controller.repos[name].job
    return None if job is None else job.stage


# -- a first index -------------------------------------------------------------------------------------------------


def test_a_gained_unit_is_fetched_built_loaded_admitted_and_recorded() -> None:
    bench = Bench()
    order = only(bench.gain(), Fetch)
    assert order.spec.name == "a"
    build = only(bench.tell(SourceFetched(order.number)), Build)
    assert not build.is_incremental
    effects = bench.tell(IndexProvisioned(build.number, stats(5 * MIB)))
    assert effects == [
        LoadIndex(order.number, "a"),
        Admit("a", 5 * MIB),
        RecordIndexed("a", "c1", 5 * MIB),
    ]
    assert bench.controller.memory.held_bytes == 5 * MIB


def test_fetches_and_builds_are_bounded_and_the_rest_is_queued() -> None:
    bench = Bench(fetches_max=2, builds_max=1)
    orders = [bench.gain(name) for name in "abc"]
    assert [len(of_kind(each, Fetch)) for each in orders] == [1, 1, 0]
    assert stage(bench, "c") is JobStage.WAITING
    effects = bench.tell(SourceFetched(only(orders[0], Fetch).number))
    assert only(effects, Build)
    assert only(effects, Fetch).spec.name == "c"  # the build has left a place
    assert of_kind(bench.tell(SourceFetched(only(orders[1], Fetch).number)), Build) == []
    assert stage(bench, "b") is JobStage.FETCHED


def test_a_first_failure_is_recorded_and_refused_and_the_unit_is_forgotten() -> None:
    bench = Bench()
    order = only(bench.gain(), Fetch)
    effects = bench.tell(ProvisionFailed(order.number, "needs credentials"))
    assert effects == [RecordFailure("a", "needs credentials"), Refuse("a", "needs credentials")]
    assert phase_of(bench.controller.repos["a"]) is Phase.FAILED
    assert bench.tell(UnitLost("a")) == [Forget("a")]
    assert bench.controller.repos == {}
    assert only(bench.gain(), Fetch)  # won again later: tried again


def test_a_failing_repository_does_not_delay_the_others() -> None:
    bench = Bench(fetches_max=1)
    order = only(bench.gain("a"), Fetch)
    bench.gain("b")
    effects = bench.tell(ProvisionFailed(order.number, "gone"))
    assert only(effects, Fetch).spec.name == "b"


def test_the_finished_index_is_received_from_a_node_that_has_it_and_its_origin_checked_at_once() -> None:
    bench = Bench()
    order = only(bench.gain(replica=SUCCESSOR, sibling="n2:6070", footprint_bytes=MIB), Receive)
    assert order.address == "n2:6070"
    effects = bench.tell(IndexProvisioned(order.number, stats()))
    assert of_kind(effects, RecordIndexed) == []  # whoever built it has done so
    assert only(effects, Admit)
    assert only(effects, CheckOrigin)  # it may be old


def test_an_index_that_could_not_be_received_is_built_from_its_origin() -> None:
    bench = Bench()
    order = only(bench.gain(sibling="n2:6070"), Receive)
    effects = bench.tell(ProvisionFailed(order.number, "n2 is gone"))
    assert of_kind(effects, Refuse) == []
    assert only(bench.made(effects), Admit)


def test_a_unit_already_loaded_for_a_sibling_slot_is_admitted_at_once() -> None:
    bench = Bench()
    bench.keep(replica=SUCCESSOR)
    assert only(bench.gain(replica=0), Admit).memory_bytes == MIB
    assert bench.controller.repos["a"].unit == Unit("a")


def test_a_unit_lost_during_its_job_stops_the_job_and_frees_its_slot_when_it_has_ended() -> None:
    bench = Bench(fetches_max=1)
    order = only(bench.gain("a"), Fetch)
    bench.gain("b")
    assert bench.tell(UnitLost("a")) == [Stop(order.number), Forget("a")]
    assert only(bench.tell(ProvisionStopped(order.number)), Fetch).spec.name == "b"


def test_an_index_finished_after_its_job_was_stopped_is_discarded() -> None:
    bench = Bench()
    build = bench.fetched(bench.gain())
    bench.tell(UnitLost("a"))
    assert bench.tell(IndexProvisioned(build.number, stats())) == [DiscardIndex(build.number)]


# -- too large -----------------------------------------------------------------------------------------------------


def test_an_index_larger_than_the_budget_is_refused_and_its_size_recorded() -> None:
    bench = Bench()
    effects = bench.made(bench.gain(), BUDGET_BYTES + 1)
    noted = only(effects, RecordIndexed)
    assert noted.footprint_bytes == BUDGET_BYTES + 1
    assert noted.failure == only(effects, Refuse).reason
    assert "raise search.budget_bytes" in noted.failure
    assert only(effects, DiscardIndex)
    assert bench.controller.memory.held_bytes == 0


def test_a_repository_known_to_be_too_large_is_not_fetched_without_a_reindex_request() -> None:
    bench = Bench()
    too_large = BUDGET_BYTES + 1
    effects = bench.gain(footprint_bytes=too_large, last_indexed_at=5)
    assert of_kind(effects, Fetch) == []
    assert only(effects, Refuse)
    bench.tell(UnitLost("a"))
    assert only(bench.gain(footprint_bytes=too_large, last_indexed_at=5, reindex_requested_at=6), Fetch)


def test_an_index_that_outgrows_the_budget_leaves_the_old_one_in_place() -> None:
    bench = Bench()
    bench.keep()
    effects = bench.made(bench.look("c2"), BUDGET_BYTES + 1, "c2")
    assert of_kind(effects, Refuse) + of_kind(effects, UnloadIndex) + of_kind(effects, Release) == []
    repo = bench.controller.repos["a"]
    assert repo.memory_bytes == MIB
    assert "give a node more memory" in repo.reason


# -- keeping fresh -------------------------------------------------------------------------------------------------


def test_new_commits_lead_to_a_renewal_and_the_old_index_stays_until_then() -> None:
    bench = Bench()
    bench.keep()
    effects = bench.look("c2")
    assert of_kind(effects, UnloadIndex) == []
    assert bench.fetched(effects).is_incremental
    assert phase_of(bench.controller.repos["a"]) is Phase.READY
    number = bench.controller.repos["a"].job
    assert number is not None
    effects = bench.tell(IndexProvisioned(number.number, stats(2 * MIB, "c2")))
    assert effects == [LoadIndex(number.number, "a"), RecordIndexed("a", "c2", 2 * MIB)]


def test_without_new_commits_only_the_next_origin_check_is_scheduled() -> None:
    bench = Bench(refresh_s=60.0)
    bench.keep()
    assert bench.look("c1") == []
    assert of_kind(bench.wait(59.0), CheckOrigin) == []
    assert only(bench.wait(2.0), CheckOrigin)


def test_origin_checks_are_bounded_and_none_is_forgotten() -> None:
    bench = Bench(origin_checks_max=2, fetches_max=8, builds_max=8, verify_s=10_000.0)
    for name in "abcde":
        bench.keep(name)
    origin_checks = of_kind(bench.wait(100.0), CheckOrigin)
    assert len(origin_checks) == 2
    seen = [each.spec.name for each in origin_checks]
    while origin_checks:
        more = of_kind(bench.tell(OriginChecked(origin_checks.pop(0).number, heads())), CheckOrigin)
        seen += [each.spec.name for each in more if each.spec.name not in seen]
        origin_checks += more if len(seen) < 5 else []
    assert sorted(seen) == list("abcde")


def test_a_push_triggers_an_origin_check_at_once() -> None:
    bench = Bench()
    bench.keep()
    assert only(bench.tell(PushReceived("a")), CheckOrigin)


def test_a_push_during_an_origin_check_triggers_another_check() -> None:
    bench = Bench()
    bench.keep()
    first = only(bench.tell(PushReceived("a")), CheckOrigin)
    assert bench.tell(PushReceived("a")) == []
    assert only(bench.tell(OriginChecked(first.number, heads())), CheckOrigin)


def test_a_push_during_a_fetch_triggers_an_origin_check_after_it() -> None:
    bench = Bench()
    effects = bench.gain()
    bench.tell(PushReceived("a"))
    assert only(bench.made(effects), CheckOrigin)


def test_a_push_to_a_repository_of_another_node_is_ignored() -> None:
    assert Bench().tell(PushReceived("b")) == []


def test_a_folder_with_another_fingerprint_is_rebuilt_once() -> None:
    bench = Bench(verify_s=10_000.0)
    effects = bench.gain()
    bench.tell(IndexProvisioned(bench.fetched(effects).number, IndexStats(MIB, ())))
    fingerprint = heads("mtime:1", "folder")
    first = only(bench.wait(100.0), CheckOrigin)
    build = bench.fetched(bench.tell(OriginChecked(first.number, fingerprint)))
    bench.tell(IndexProvisioned(build.number, IndexStats(MIB, ())))
    second = only(bench.wait(100.0), CheckOrigin)
    assert bench.tell(OriginChecked(second.number, fingerprint)) == []
    assert stage(bench) is None


def test_a_fetch_newer_than_the_origin_check_is_not_recorded_as_the_checked_version() -> None:
    bench = Bench(verify_s=10_000.0)
    bench.keep()
    bench.made(bench.look("c2"), version="c3")
    assert bench.look("c3") == []
    assert only(bench.look("c2"), Fetch)  # pushed back


@pytest.mark.parametrize("step", ["look", "fetch", "build"])
def test_a_failed_refresh_keeps_the_index_reports_the_reason_and_is_retried_with_backoff(step: str) -> None:
    bench = Bench(retry_first_s=8.0, retry_ceiling_s=900.0, verify_s=100_000.0)
    bench.keep()
    waits = []
    look = only(bench.wait(100.0), CheckOrigin)
    for _ in range(9):
        began = bench.now
        effects = fail(bench, look, step)
        assert effects == [RecordFailure("a", "away")]
        repo = bench.controller.repos["a"]
        assert (repo.memory_bytes, repo.reason) == (MIB, "away")
        retry_at = status_of(bench.controller, repo, 0.0, 1000.0).retry_at - 1000.0
        waits.append(retry_at - began)
        look = only(bench.wait(retry_at - began), CheckOrigin)
    assert waits == [0.75 * each for each in (8, 16, 32, 64, 128, 256, 512, 900, 900)]
    noted = bench.tell(OriginChecked(look.number, heads()))
    assert noted == [RecordIndexed("a", "c1", MIB)]  # clears the error in the catalog
    assert bench.controller.repos["a"].reason == ""


def fail(bench: Bench, look: CheckOrigin, step: str) -> list[Effect]:
    if step == "look":
        return bench.tell(OriginCheckFailed(look.number, "away"))
    effects = bench.tell(OriginChecked(look.number, heads("c2")))
    number = only(effects, Fetch).number if step == "fetch" else bench.fetched(effects).number
    return bench.tell(ProvisionFailed(number, "away"))


# -- what operators ask for ----------------------------------------------------------------------------------------


def test_other_branches_are_indexed_and_the_old_index_stays_until_then() -> None:
    bench = Bench()
    bench.keep()
    effects = bench.change(branches=("dev",))
    assert only(effects, Fetch).spec.branches == ("dev",)
    assert bench.fetched(effects).is_incremental
    assert bench.controller.memory.held_bytes == MIB


def test_a_new_address_is_indexed_from_scratch() -> None:
    bench = Bench()
    bench.keep()
    assert not bench.fetched(bench.change(url="https://host/elsewhere")).is_incremental


def test_a_change_of_address_during_a_fetch_restarts_it() -> None:
    bench = Bench()
    order = only(bench.gain(), Fetch)
    effects = bench.change(url="https://host/elsewhere")
    assert only(effects, Stop).number == order.number
    assert only(effects, Fetch).spec.url == "https://host/elsewhere"
    assert bench.tell(SourceFetched(order.number)) == []


def test_a_reverted_change_of_address_leaves_the_index_scheduled_for_checks() -> None:
    bench = Bench(verify_s=10_000.0)
    bench.keep()
    order = only(bench.change(url="https://host/elsewhere"), Fetch)
    assert bench.change() == [Stop(order.number)]
    assert only(bench.wait(100.0), CheckOrigin)


def test_a_push_recorded_in_the_catalog_triggers_an_origin_check_at_once() -> None:
    bench = Bench()
    bench.keep()
    assert only(bench.change(pushed_at=7), CheckOrigin)
    assert bench.change(pushed_at=7, failures=1) == []


def test_a_reindex_shares_nothing_with_the_old_index_and_runs_once() -> None:
    bench = Bench(verify_s=10_000.0)
    bench.keep()
    effects = bench.change(reindex_requested_at=5)
    assert not bench.fetched(effects).is_incremental
    bench.tell(IndexProvisioned(only(effects, Fetch).number, stats()))
    assert bench.change(reindex_requested_at=5, footprint_bytes=MIB) == []
    assert stage(bench) is None


def test_a_reindex_requested_during_a_renewal_runs_after_it() -> None:
    bench = Bench()
    bench.keep()
    renewal = bench.look("c2")
    assert bench.change(reindex_requested_at=5) == []
    again = bench.made(renewal, version="c2")
    assert not bench.fetched(again).is_incremental


def test_a_failed_reindex_is_still_pending() -> None:
    bench = Bench(verify_s=10_000.0)
    bench.keep()
    order = only(bench.change(reindex_requested_at=5), Fetch)
    bench.tell(ProvisionFailed(order.number, "away"))
    assert not bench.fetched(bench.wait(20.0)).is_incremental


def test_a_received_index_older_than_the_requested_reindex_is_rebuilt() -> None:
    bench = Bench()
    asked = {"footprint_bytes": MIB, "last_indexed_at": 3, "reindex_requested_at": 4}
    order = only(bench.gain(sibling="n2:1", **asked), Receive)
    effects = bench.tell(IndexProvisioned(order.number, stats()))
    assert only(effects, Admit)
    assert not bench.fetched(effects).is_incremental


def test_a_repository_removed_from_the_catalog_is_unloaded_at_once() -> None:
    bench = Bench()
    bench.keep()
    assert bench.tell(SpecChanged("a", None)) == [UnloadIndex("a", is_removed=True)]
    assert bench.controller.memory.held_bytes == 0
    assert bench.controller.deadline() is None
    assert bench.tell(UnitLost("a")) == [Forget("a")]


def test_a_repository_added_again_before_its_lease_ends_is_indexed_again() -> None:
    bench = Bench()
    bench.keep()
    bench.tell(SpecChanged("a", None))
    assert only(bench.made(bench.change()), LoadIndex)


def test_a_repository_removed_during_its_job_is_refused() -> None:
    bench = Bench()
    order = only(bench.gain(), Fetch)
    effects = bench.tell(SpecChanged("a", None))
    assert only(effects, Stop).number == order.number
    assert only(effects, Refuse)


def test_a_unit_that_is_not_in_the_catalog_is_refused() -> None:
    effects = Bench().tell(UnitGained(Unit("a"), None))
    assert "removed from the catalog" in only(effects, Refuse).reason


# -- verifications -------------------------------------------------------------------------------------------------


def test_indexes_are_verified_in_order_one_at_a_time() -> None:
    bench = Bench(verify_s=600.0, refresh_s=1e6, fetches_max=8)
    bench.keep("a")
    bench.keep("b")
    first = only(bench.wait(1000.0), VerifyIndex)
    second = only(bench.tell(IndexVerified(first.number, is_sound=True)), VerifyIndex)
    assert {first.name, second.name} == {"a", "b"}
    bench.tell(IndexVerified(second.number, is_sound=True))
    assert only(bench.wait(601.0), VerifyIndex).name == first.name


def test_a_damaged_index_is_unloaded_at_once_and_rebuilt_from_its_origin() -> None:
    bench = Bench(verify_s=600.0, refresh_s=1e6)
    bench.keep()
    check = only(bench.wait(1000.0), VerifyIndex)
    effects = bench.tell(IndexVerified(check.number, is_sound=False))
    assert only(effects, UnloadIndex) == UnloadIndex("a")
    assert phase_of(bench.controller.repos["a"]) is Phase.FETCHING
    assert not bench.fetched(effects).is_incremental
    assert of_kind(bench.tell(IndexProvisioned(only(effects, Fetch).number, stats())), Admit) == []  # it was told


def test_a_damaged_index_that_cannot_be_rebuilt_here_is_released() -> None:
    bench = Bench(verify_s=600.0, refresh_s=1e6)
    bench.keep()
    check = only(bench.wait(1000.0), VerifyIndex)
    order = only(bench.tell(IndexVerified(check.number, is_sound=False)), Fetch)
    effects = bench.tell(ProvisionFailed(order.number, "away"))
    assert only(effects, Release) == Release("a", "away", is_eviction=False)


def test_a_renewal_that_may_share_the_damage_is_restarted() -> None:
    bench = Bench(verify_s=600.0, refresh_s=700.0)
    bench.keep()
    check, look = only(bench.wait(650.0), VerifyIndex), only(bench.wait(100.0), CheckOrigin)
    build = bench.fetched(bench.tell(OriginChecked(look.number, heads("c2"))))
    effects = bench.tell(IndexVerified(check.number, is_sound=False))
    assert only(effects, Stop).number == build.number
    assert not bench.fetched(effects).is_incremental


def test_the_result_for_an_index_replaced_during_its_check_does_not_count_for_the_new_one() -> None:
    bench = Bench(verify_s=600.0, refresh_s=700.0)
    bench.keep()
    check, look = only(bench.wait(650.0), VerifyIndex), only(bench.wait(100.0), CheckOrigin)
    bench.made(bench.tell(OriginChecked(look.number, heads("c2"))), version="c2")
    assert bench.tell(IndexVerified(check.number, is_sound=True)) == []
    assert of_kind(bench.wait(1000.0), VerifyIndex)


def test_a_renewal_of_a_damaged_index_during_its_check_is_unloaded_with_it() -> None:
    bench = Bench(verify_s=600.0, refresh_s=700.0)
    bench.keep()
    check, look = only(bench.wait(650.0), VerifyIndex), only(bench.wait(100.0), CheckOrigin)
    bench.made(bench.tell(OriginChecked(look.number, heads("c2"))), version="c2")
    effects = bench.tell(IndexVerified(check.number, is_sound=False))
    assert only(effects, UnloadIndex).name == "a"
    assert not bench.fetched(effects).is_incremental


# -- memory --------------------------------------------------------------------------------------------------------


def test_above_the_high_watermark_the_coldest_are_evicted_down_to_the_low_one() -> None:
    bench = Bench(high_watermark=0.9, low_watermark=0.5, refresh_s=1e6, verify_s=1e6)
    for name in "abcd":
        bench.keep(name, 220 * MIB)
        bench.wait(100.0)
    bench.controller.traffic.record(["a"], bench.now)
    assert of_kind(bench.keep("e", 40 * MIB), Release) != []
    assert [name for name, repo in bench.controller.repos.items() if repo.is_leaving] == ["b", "c"]
    released = bench.controller.repos["b"]
    assert "evicted" in released.reason
    assert bench.controller.memory.held_bytes == 920 * MIB  # until they are dropped
    bench.tell(UnitLost("b"))
    assert bench.controller.memory.held_bytes == 700 * MIB
    assert bench.controller.free_bytes() == 200 * MIB


def test_pinned_indexes_are_never_evicted_and_unpinning_takes_effect() -> None:
    bench = Bench(refresh_s=1e6, verify_s=1e6)
    bench.keep("a", 600 * MIB, is_pinned=True)
    assert of_kind(bench.keep("b", 600 * MIB, is_pinned=True), Release) == []
    effects = bench.change("a", is_pinned=False)
    assert only(effects, Release).name == "a"


def test_room_is_made_before_a_known_large_one_is_built() -> None:
    bench = Bench(refresh_s=1e6, verify_s=1e6)
    bench.keep("a", 600 * MIB)
    bench.wait(100.0)
    order = only(bench.gain("b", footprint_bytes=500 * MIB), Fetch)
    effects = bench.tell(SourceFetched(order.number))
    assert only(effects, Release).name == "a"


def test_the_offered_capacity_leaves_room_for_the_watermark_and_for_renewals() -> None:
    bench = Bench(high_watermark=0.9)
    assert bench.controller.free_bytes() == 900 * MIB
    bench.keep("a", 200 * MIB)
    assert bench.controller.free_bytes() == 700 * MIB
    bench.look("c2")
    assert bench.controller.free_bytes() == 500 * MIB


# -- snapshots and what is told ------------------------------------------------------------------------------------


def test_a_very_large_index_is_saved_and_restored_before_anything_else_is_tried() -> None:
    bench = Bench(snapshot_dir="x", snapshot_min_bytes=100 * MIB)
    assert only(bench.keep("a", 100 * MIB), Save).name == "a"
    assert of_kind(bench.keep("b", 99 * MIB), Save) == []
    bench.tell(UnitLost("a"))
    order = only(bench.gain("a", footprint_bytes=100 * MIB, sibling="n2:1"), Restore)
    effects = bench.tell(ProvisionFailed(order.number, "it is of another time"))
    assert only(effects, Receive).address == "n2:1"


def test_the_status_of_a_repository() -> None:
    bench = Bench()
    bench.now = 100.0
    bench.tell(UnitGained(Unit("a", 1), spec("a", is_pinned=True), None, claim_latency_s=2.5))
    job = bench.controller.repos["a"].job
    assert job is not None
    told = status_of(bench.controller, bench.controller.repos["a"], 0.25, 1000.0)
    assert (told.phase, told.progress, told.replica, told.is_pinned) == (Phase.FETCHING, 0.25, 1, True)
    bench.tell(SourceFetched(job.number))
    bench.tell(IndexProvisioned(job.number, stats(MIB, documents=3, content_bytes=7, index_time_ms=9.0)))
    bench.now = 130.0
    bench.controller.traffic.record(["a"], bench.now)
    told = status_of(bench.controller, bench.controller.repos["a"], 0.0, 1000.0)
    assert (told.phase, told.progress, told.documents, told.content_bytes) == (Phase.READY, 1.0, 3, 7)
    assert (told.indexed_at, told.last_served_at, told.searches) == (1100.0, 1130.0, 1)
    assert (told.claim_latency_s, told.index_time_ms, told.branches) == (2.5, 9.0, heads())
