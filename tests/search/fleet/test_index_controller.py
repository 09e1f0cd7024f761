"""Which indexes a node builds, renews, verifies, retains and evicts."""

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
from tests.search.fleet.controller_fixture import (
    BUDGET_BYTES,
    MIB,
    ControllerFixture,
    heads,
    of_kind,
    only,
    spec,
    stats,
)


def job_stage(fixture: ControllerFixture, name: str = "a") -> JobStage | None:
    job = fixture.controller.repos[name].job
    return None if job is None else job.stage


# -- a first index -------------------------------------------------------------------------------------------------


def test_a_gained_unit_is_fetched_built_loaded_admitted_and_recorded() -> None:
    fixture = ControllerFixture()
    order = only(fixture.gain(), Fetch)
    assert order.spec.name == "a"
    build = only(fixture.handle(SourceFetched(order.number)), Build)
    assert not build.is_incremental
    effects = fixture.handle(IndexProvisioned(build.number, stats(5 * MIB)))
    assert effects == [
        LoadIndex(order.number, "a"),
        Admit("a", 5 * MIB),
        RecordIndexed("a", "c1", 5 * MIB),
    ]
    assert fixture.controller.memory.held_bytes == 5 * MIB


def test_fetches_and_builds_are_bounded_and_the_rest_is_queued() -> None:
    fixture = ControllerFixture(fetches_max=2, builds_max=1)
    orders = [fixture.gain(name) for name in "abc"]
    assert [len(of_kind(each, Fetch)) for each in orders] == [1, 1, 0]
    assert job_stage(fixture, "c") is JobStage.WAITING
    effects = fixture.handle(SourceFetched(only(orders[0], Fetch).number))
    assert only(effects, Build)
    assert only(effects, Fetch).spec.name == "c"  # the build has left a place
    assert of_kind(fixture.handle(SourceFetched(only(orders[1], Fetch).number)), Build) == []
    assert job_stage(fixture, "b") is JobStage.FETCHED


def test_a_first_failure_is_recorded_and_refused_and_the_unit_is_forgotten() -> None:
    fixture = ControllerFixture()
    order = only(fixture.gain(), Fetch)
    effects = fixture.handle(ProvisionFailed(order.number, "needs credentials"))
    assert effects == [RecordFailure("a", "needs credentials"), Refuse("a", "needs credentials")]
    assert phase_of(fixture.controller.repos["a"]) is Phase.FAILED
    assert fixture.handle(UnitLost("a")) == [Forget("a")]
    assert fixture.controller.repos == {}
    assert only(fixture.gain(), Fetch)  # won again later: tried again


def test_a_failing_repository_does_not_delay_the_others() -> None:
    fixture = ControllerFixture(fetches_max=1)
    order = only(fixture.gain("a"), Fetch)
    fixture.gain("b")
    effects = fixture.handle(ProvisionFailed(order.number, "gone"))
    assert only(effects, Fetch).spec.name == "b"


def test_the_finished_index_is_received_from_a_node_that_has_it_and_its_origin_checked_at_once() -> None:
    fixture = ControllerFixture()
    order = only(fixture.gain(replica=SUCCESSOR, sibling="n2:6070", footprint_bytes=MIB), Receive)
    assert order.address == "n2:6070"
    effects = fixture.handle(IndexProvisioned(order.number, stats()))
    assert of_kind(effects, RecordIndexed) == []  # the node that built it has recorded it
    assert only(effects, Admit)
    assert only(effects, CheckOrigin)  # it may be old


def test_an_index_that_could_not_be_received_is_built_from_its_origin() -> None:
    fixture = ControllerFixture()
    order = only(fixture.gain(sibling="n2:6070"), Receive)
    effects = fixture.handle(ProvisionFailed(order.number, "n2 is gone"))
    assert of_kind(effects, Refuse) == []
    assert only(fixture.complete_build(effects), Admit)


def test_a_unit_already_loaded_for_a_sibling_slot_is_admitted_at_once() -> None:
    fixture = ControllerFixture()
    fixture.make_ready(replica=SUCCESSOR)
    assert only(fixture.gain(replica=0), Admit).memory_bytes == MIB
    assert fixture.controller.repos["a"].unit == Unit("a")


def test_a_unit_lost_during_its_job_stops_the_job_and_frees_its_slot_when_it_has_ended() -> None:
    fixture = ControllerFixture(fetches_max=1)
    order = only(fixture.gain("a"), Fetch)
    fixture.gain("b")
    assert fixture.handle(UnitLost("a")) == [Stop(order.number), Forget("a")]
    assert only(fixture.handle(ProvisionStopped(order.number)), Fetch).spec.name == "b"


def test_an_index_finished_after_its_job_was_stopped_is_discarded() -> None:
    fixture = ControllerFixture()
    build = fixture.complete_fetch(fixture.gain())
    fixture.handle(UnitLost("a"))
    assert fixture.handle(IndexProvisioned(build.number, stats())) == [DiscardIndex(build.number)]


# -- too large -----------------------------------------------------------------------------------------------------


def test_an_index_larger_than_the_budget_is_refused_and_its_size_recorded() -> None:
    fixture = ControllerFixture()
    effects = fixture.complete_build(fixture.gain(), BUDGET_BYTES + 1)
    recorded = only(effects, RecordIndexed)
    assert recorded.footprint_bytes == BUDGET_BYTES + 1
    assert recorded.failure == only(effects, Refuse).reason
    assert "raise search.budget_bytes" in recorded.failure
    assert only(effects, DiscardIndex)
    assert fixture.controller.memory.held_bytes == 0


def test_a_repository_known_to_be_too_large_is_not_fetched_without_a_reindex_request() -> None:
    fixture = ControllerFixture()
    too_large = BUDGET_BYTES + 1
    effects = fixture.gain(footprint_bytes=too_large, last_indexed_at=5)
    assert of_kind(effects, Fetch) == []
    assert only(effects, Refuse)
    fixture.handle(UnitLost("a"))
    assert only(fixture.gain(footprint_bytes=too_large, last_indexed_at=5, reindex_requested_at=6), Fetch)


def test_an_index_that_outgrows_the_budget_leaves_the_old_one_in_place() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    effects = fixture.complete_build(fixture.check_origin("c2"), BUDGET_BYTES + 1, "c2")
    assert of_kind(effects, Refuse) + of_kind(effects, UnloadIndex) + of_kind(effects, Release) == []
    repo = fixture.controller.repos["a"]
    assert repo.memory_bytes == MIB
    assert "give a node more memory" in repo.reason


# -- keeping fresh -------------------------------------------------------------------------------------------------


def test_new_commits_lead_to_a_renewal_and_the_old_index_stays_until_then() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    effects = fixture.check_origin("c2")
    assert of_kind(effects, UnloadIndex) == []
    assert fixture.complete_fetch(effects).is_incremental
    assert phase_of(fixture.controller.repos["a"]) is Phase.READY
    number = fixture.controller.repos["a"].job
    assert number is not None
    effects = fixture.handle(IndexProvisioned(number.number, stats(2 * MIB, "c2")))
    assert effects == [LoadIndex(number.number, "a"), RecordIndexed("a", "c2", 2 * MIB)]


def test_without_new_commits_only_the_next_origin_check_is_scheduled() -> None:
    fixture = ControllerFixture(refresh_s=60.0)
    fixture.make_ready()
    assert fixture.check_origin("c1") == []
    assert of_kind(fixture.wait(59.0), CheckOrigin) == []
    assert only(fixture.wait(2.0), CheckOrigin)


def test_origin_checks_are_bounded_and_none_is_forgotten() -> None:
    fixture = ControllerFixture(origin_checks_max=2, fetches_max=8, builds_max=8, verify_s=10_000.0)
    for name in "abcde":
        fixture.make_ready(name)
    origin_checks = of_kind(fixture.wait(100.0), CheckOrigin)
    assert len(origin_checks) == 2
    seen = [each.spec.name for each in origin_checks]
    while origin_checks:
        more = of_kind(fixture.handle(OriginChecked(origin_checks.pop(0).number, heads())), CheckOrigin)
        seen += [each.spec.name for each in more if each.spec.name not in seen]
        origin_checks += more if len(seen) < 5 else []
    assert sorted(seen) == list("abcde")


def test_a_push_triggers_an_origin_check_at_once() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    assert only(fixture.handle(PushReceived("a")), CheckOrigin)


def test_a_push_during_an_origin_check_triggers_another_check() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    first = only(fixture.handle(PushReceived("a")), CheckOrigin)
    assert fixture.handle(PushReceived("a")) == []
    assert only(fixture.handle(OriginChecked(first.number, heads())), CheckOrigin)


def test_a_push_during_a_fetch_triggers_an_origin_check_after_it() -> None:
    fixture = ControllerFixture()
    effects = fixture.gain()
    fixture.handle(PushReceived("a"))
    assert only(fixture.complete_build(effects), CheckOrigin)


def test_a_push_to_a_repository_of_another_node_is_ignored() -> None:
    assert ControllerFixture().handle(PushReceived("b")) == []


def test_a_folder_with_another_fingerprint_is_rebuilt_once() -> None:
    fixture = ControllerFixture(verify_s=10_000.0)
    effects = fixture.gain()
    fixture.handle(IndexProvisioned(fixture.complete_fetch(effects).number, IndexStats(MIB, ())))
    fingerprint = heads("mtime:1", "folder")
    first = only(fixture.wait(100.0), CheckOrigin)
    build = fixture.complete_fetch(fixture.handle(OriginChecked(first.number, fingerprint)))
    fixture.handle(IndexProvisioned(build.number, IndexStats(MIB, ())))
    second = only(fixture.wait(100.0), CheckOrigin)
    assert fixture.handle(OriginChecked(second.number, fingerprint)) == []
    assert job_stage(fixture) is None


def test_a_fetch_newer_than_the_origin_check_is_not_recorded_as_the_checked_version() -> None:
    fixture = ControllerFixture(verify_s=10_000.0)
    fixture.make_ready()
    fixture.complete_build(fixture.check_origin("c2"), version="c3")
    assert fixture.check_origin("c3") == []
    assert only(fixture.check_origin("c2"), Fetch)  # pushed back


@pytest.mark.parametrize("step", ["check", "fetch", "build"])
def test_a_failed_refresh_keeps_the_index_reports_the_reason_and_is_retried_with_backoff(step: str) -> None:
    fixture = ControllerFixture(retry_first_s=8.0, retry_ceiling_s=900.0, verify_s=100_000.0)
    fixture.make_ready()
    waits = []
    check = only(fixture.wait(100.0), CheckOrigin)
    for _ in range(9):
        began = fixture.now
        effects = fail(fixture, check, step)
        assert effects == [RecordFailure("a", "away")]
        repo = fixture.controller.repos["a"]
        assert (repo.memory_bytes, repo.reason) == (MIB, "away")
        retry_at = status_of(fixture.controller, repo, 0.0, 1000.0).retry_at - 1000.0
        waits.append(retry_at - began)
        check = only(fixture.wait(retry_at - began), CheckOrigin)
    assert waits == [0.75 * each for each in (8, 16, 32, 64, 128, 256, 512, 900, 900)]
    recorded = fixture.handle(OriginChecked(check.number, heads()))
    assert recorded == [RecordIndexed("a", "c1", MIB)]  # clears the error in the catalog
    assert fixture.controller.repos["a"].reason == ""


def fail(fixture: ControllerFixture, check: CheckOrigin, step: str) -> list[Effect]:
    if step == "check":
        return fixture.handle(OriginCheckFailed(check.number, "away"))
    effects = fixture.handle(OriginChecked(check.number, heads("c2")))
    number = only(effects, Fetch).number if step == "fetch" else fixture.complete_fetch(effects).number
    return fixture.handle(ProvisionFailed(number, "away"))


# -- requests of operators -----------------------------------------------------------------------------------------


def test_other_branches_are_indexed_and_the_old_index_stays_until_then() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    effects = fixture.change(branches=("dev",))
    assert only(effects, Fetch).spec.branches == ("dev",)
    assert fixture.complete_fetch(effects).is_incremental
    assert fixture.controller.memory.held_bytes == MIB


def test_a_new_address_is_indexed_from_scratch() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    assert not fixture.complete_fetch(fixture.change(url="https://host/elsewhere")).is_incremental


def test_a_change_of_address_during_a_fetch_restarts_it() -> None:
    fixture = ControllerFixture()
    order = only(fixture.gain(), Fetch)
    effects = fixture.change(url="https://host/elsewhere")
    assert only(effects, Stop).number == order.number
    assert only(effects, Fetch).spec.url == "https://host/elsewhere"
    assert fixture.handle(SourceFetched(order.number)) == []


def test_a_reverted_change_of_address_leaves_the_index_scheduled_for_checks() -> None:
    fixture = ControllerFixture(verify_s=10_000.0)
    fixture.make_ready()
    order = only(fixture.change(url="https://host/elsewhere"), Fetch)
    assert fixture.change() == [Stop(order.number)]
    assert only(fixture.wait(100.0), CheckOrigin)


def test_a_push_recorded_in_the_catalog_triggers_an_origin_check_at_once() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    assert only(fixture.change(pushed_at=7), CheckOrigin)
    assert fixture.change(pushed_at=7, failures=1) == []


def test_a_reindex_shares_nothing_with_the_old_index_and_runs_once() -> None:
    fixture = ControllerFixture(verify_s=10_000.0)
    fixture.make_ready()
    effects = fixture.change(reindex_requested_at=5)
    assert not fixture.complete_fetch(effects).is_incremental
    fixture.handle(IndexProvisioned(only(effects, Fetch).number, stats()))
    assert fixture.change(reindex_requested_at=5, footprint_bytes=MIB) == []
    assert job_stage(fixture) is None


def test_a_reindex_requested_during_a_renewal_runs_after_it() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    renewal = fixture.check_origin("c2")
    assert fixture.change(reindex_requested_at=5) == []
    again = fixture.complete_build(renewal, version="c2")
    assert not fixture.complete_fetch(again).is_incremental


def test_a_failed_reindex_is_still_pending() -> None:
    fixture = ControllerFixture(verify_s=10_000.0)
    fixture.make_ready()
    order = only(fixture.change(reindex_requested_at=5), Fetch)
    fixture.handle(ProvisionFailed(order.number, "away"))
    assert not fixture.complete_fetch(fixture.wait(20.0)).is_incremental


def test_a_received_index_older_than_the_requested_reindex_is_rebuilt() -> None:
    fixture = ControllerFixture()
    changes = {"footprint_bytes": MIB, "last_indexed_at": 3, "reindex_requested_at": 4}
    order = only(fixture.gain(sibling="n2:1", **changes), Receive)
    effects = fixture.handle(IndexProvisioned(order.number, stats()))
    assert only(effects, Admit)
    assert not fixture.complete_fetch(effects).is_incremental


def test_a_repository_removed_from_the_catalog_is_unloaded_at_once() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    assert fixture.handle(SpecChanged("a", None)) == [UnloadIndex("a", is_removed=True)]
    assert fixture.controller.memory.held_bytes == 0
    assert fixture.controller.deadline() is None
    assert fixture.handle(UnitLost("a")) == [Forget("a")]


def test_a_repository_added_again_before_its_lease_ends_is_indexed_again() -> None:
    fixture = ControllerFixture()
    fixture.make_ready()
    fixture.handle(SpecChanged("a", None))
    assert only(fixture.complete_build(fixture.change()), LoadIndex)


def test_a_repository_removed_during_its_job_is_refused() -> None:
    fixture = ControllerFixture()
    order = only(fixture.gain(), Fetch)
    effects = fixture.handle(SpecChanged("a", None))
    assert only(effects, Stop).number == order.number
    assert only(effects, Refuse)


def test_a_unit_that_is_not_in_the_catalog_is_refused() -> None:
    effects = ControllerFixture().handle(UnitGained(Unit("a"), None))
    assert "removed from the catalog" in only(effects, Refuse).reason


# -- verifications -------------------------------------------------------------------------------------------------


def test_indexes_are_verified_in_order_one_at_a_time() -> None:
    fixture = ControllerFixture(verify_s=600.0, refresh_s=1e6, fetches_max=8)
    fixture.make_ready("a")
    fixture.make_ready("b")
    first = only(fixture.wait(1000.0), VerifyIndex)
    second = only(fixture.handle(IndexVerified(first.number, is_sound=True)), VerifyIndex)
    assert {first.name, second.name} == {"a", "b"}
    fixture.handle(IndexVerified(second.number, is_sound=True))
    assert only(fixture.wait(601.0), VerifyIndex).name == first.name


def test_a_damaged_index_is_unloaded_at_once_and_rebuilt_from_its_origin() -> None:
    fixture = ControllerFixture(verify_s=600.0, refresh_s=1e6)
    fixture.make_ready()
    check = only(fixture.wait(1000.0), VerifyIndex)
    effects = fixture.handle(IndexVerified(check.number, is_sound=False))
    assert only(effects, UnloadIndex) == UnloadIndex("a")
    assert phase_of(fixture.controller.repos["a"]) is Phase.FETCHING
    assert not fixture.complete_fetch(effects).is_incremental
    assert (
        of_kind(fixture.handle(IndexProvisioned(only(effects, Fetch).number, stats())), Admit) == []
    )  # it was admitted before


def test_a_damaged_index_that_cannot_be_rebuilt_here_is_released() -> None:
    fixture = ControllerFixture(verify_s=600.0, refresh_s=1e6)
    fixture.make_ready()
    check = only(fixture.wait(1000.0), VerifyIndex)
    order = only(fixture.handle(IndexVerified(check.number, is_sound=False)), Fetch)
    effects = fixture.handle(ProvisionFailed(order.number, "away"))
    assert only(effects, Release) == Release("a", "away", is_eviction=False)


def test_a_renewal_that_may_share_the_damage_is_restarted() -> None:
    fixture = ControllerFixture(verify_s=600.0, refresh_s=700.0)
    fixture.make_ready()
    verification, check = only(fixture.wait(650.0), VerifyIndex), only(fixture.wait(100.0), CheckOrigin)
    build = fixture.complete_fetch(fixture.handle(OriginChecked(check.number, heads("c2"))))
    effects = fixture.handle(IndexVerified(verification.number, is_sound=False))
    assert only(effects, Stop).number == build.number
    assert not fixture.complete_fetch(effects).is_incremental


def test_the_result_for_an_index_replaced_during_its_check_does_not_count_for_the_new_one() -> None:
    fixture = ControllerFixture(verify_s=600.0, refresh_s=700.0)
    fixture.make_ready()
    verification, check = only(fixture.wait(650.0), VerifyIndex), only(fixture.wait(100.0), CheckOrigin)
    fixture.complete_build(fixture.handle(OriginChecked(check.number, heads("c2"))), version="c2")
    assert fixture.handle(IndexVerified(verification.number, is_sound=True)) == []
    assert of_kind(fixture.wait(1000.0), VerifyIndex)


def test_a_renewal_of_a_damaged_index_during_its_check_is_unloaded_with_it() -> None:
    fixture = ControllerFixture(verify_s=600.0, refresh_s=700.0)
    fixture.make_ready()
    verification, check = only(fixture.wait(650.0), VerifyIndex), only(fixture.wait(100.0), CheckOrigin)
    fixture.complete_build(fixture.handle(OriginChecked(check.number, heads("c2"))), version="c2")
    effects = fixture.handle(IndexVerified(verification.number, is_sound=False))
    assert only(effects, UnloadIndex).name == "a"
    assert not fixture.complete_fetch(effects).is_incremental


# -- memory --------------------------------------------------------------------------------------------------------


def test_above_the_high_watermark_the_coldest_are_evicted_down_to_the_low_one() -> None:
    fixture = ControllerFixture(high_watermark=0.9, low_watermark=0.5, refresh_s=1e6, verify_s=1e6)
    for name in "abcd":
        fixture.make_ready(name, 220 * MIB)
        fixture.wait(100.0)
    fixture.controller.traffic.record(["a"], fixture.now)
    assert of_kind(fixture.make_ready("e", 40 * MIB), Release) != []
    assert [name for name, repo in fixture.controller.repos.items() if repo.is_leaving] == ["b", "c"]
    released = fixture.controller.repos["b"]
    assert "evicted" in released.reason
    assert fixture.controller.memory.held_bytes == 920 * MIB  # until they are dropped
    fixture.handle(UnitLost("b"))
    assert fixture.controller.memory.held_bytes == 700 * MIB
    assert fixture.controller.free_bytes() == 200 * MIB


def test_pinned_indexes_are_never_evicted_and_unpinning_takes_effect() -> None:
    fixture = ControllerFixture(refresh_s=1e6, verify_s=1e6)
    fixture.make_ready("a", 600 * MIB, is_pinned=True)
    assert of_kind(fixture.make_ready("b", 600 * MIB, is_pinned=True), Release) == []
    effects = fixture.change("a", is_pinned=False)
    assert only(effects, Release).name == "a"


def test_room_is_made_before_a_known_large_one_is_built() -> None:
    fixture = ControllerFixture(refresh_s=1e6, verify_s=1e6)
    fixture.make_ready("a", 600 * MIB)
    fixture.wait(100.0)
    order = only(fixture.gain("b", footprint_bytes=500 * MIB), Fetch)
    effects = fixture.handle(SourceFetched(order.number))
    assert only(effects, Release).name == "a"


def test_the_offered_capacity_leaves_room_for_the_watermark_and_for_renewals() -> None:
    fixture = ControllerFixture(high_watermark=0.9)
    assert fixture.controller.free_bytes() == 900 * MIB
    fixture.make_ready("a", 200 * MIB)
    assert fixture.controller.free_bytes() == 700 * MIB
    fixture.check_origin("c2")
    assert fixture.controller.free_bytes() == 500 * MIB


# -- snapshots and status -----------------------------------------------------------------------------------------


def test_a_very_large_index_is_saved_and_restored_before_anything_else_is_tried() -> None:
    fixture = ControllerFixture(snapshot_dir="x", snapshot_min_bytes=100 * MIB)
    assert only(fixture.make_ready("a", 100 * MIB), Save).name == "a"
    assert of_kind(fixture.make_ready("b", 99 * MIB), Save) == []
    fixture.handle(UnitLost("a"))
    order = only(fixture.gain("a", footprint_bytes=100 * MIB, sibling="n2:1"), Restore)
    effects = fixture.handle(ProvisionFailed(order.number, "it is of another time"))
    assert only(effects, Receive).address == "n2:1"


def test_the_status_of_a_repository() -> None:
    fixture = ControllerFixture()
    fixture.now = 100.0
    fixture.handle(UnitGained(Unit("a", 1), spec("a", is_pinned=True), None, claim_latency_s=2.5))
    job = fixture.controller.repos["a"].job
    assert job is not None
    status = status_of(fixture.controller, fixture.controller.repos["a"], 0.25, 1000.0)
    assert (status.phase, status.progress, status.replica, status.is_pinned) == (Phase.FETCHING, 0.25, 1, True)
    fixture.handle(SourceFetched(job.number))
    fixture.handle(IndexProvisioned(job.number, stats(MIB, documents=3, content_bytes=7, index_time_ms=9.0)))
    fixture.now = 130.0
    fixture.controller.traffic.record(["a"], fixture.now)
    status = status_of(fixture.controller, fixture.controller.repos["a"], 0.0, 1000.0)
    assert (status.phase, status.progress, status.documents, status.content_bytes) == (Phase.READY, 1.0, 3, 7)
    assert (status.indexed_at, status.last_served_at, status.searches) == (1100.0, 1130.0, 1)
    assert (status.claim_latency_s, status.index_time_ms, status.branches) == (2.5, 9.0, heads())
