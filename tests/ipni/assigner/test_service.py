"""The assigner over real HTTP: which indexers it calls, what it hands over; rejections, freezes and outages."""

import asyncio
from dataclasses import replace

import pytest

from argosy.base.errors import Forbidden, Unavailable
from argosy.base.metrics import Metrics
from argosy.ipni.assigner import service as services
from argosy.ipni.assigner import telemetry as m
from argosy.ipni.assigner.advice import advise
from argosy.ipni.assigner.configuration import Configuration
from tests.ipni.assigner.doubles import (
    Double,
    announce_and_wait,
    announcement,
    assigner_of,
    peer,
    poll_and_wait,
    serving,
    stage,
    until,
)
from tests.ipni.assigner.doubles import indexer_app as app_of

P1, P2, P3 = peer("p1"), peer("p2"), peer("p3")


def allow_lists(*doubles: Double) -> list[set[str]]:
    return [set(double.allowed) for double in doubles]


# Behaviour the reference's tests require


async def test_presets_and_replication_decide_who_is_assigned_and_who_gets_announcements() -> None:
    zero, one = Double("0", allowed={P1: ""}), Double("1", allowed={P1: ""})
    async with stage(zero, one) as it:
        presets = {"0": ("p1", "p2"), "1": ("p1",)}
        service = await it.assigner(it.configuration(presets=presets, replication=2, preset_replication=2))
        await announce_and_wait(service, "p2")
        await announce_and_wait(service, "p3")
        assert allow_lists(zero, one) == [{P1, P2, P3}, {P1, P3}]
        assert (len(zero.announced), len(one.announced)) == (2, 1)
        await announce_and_wait(service, "p2", head=1)
        assert (zero.heads("p2"), one.heads("p2")) == (2, 0)
        assert (len(zero.handoffs), zero.requests.count("assign"), one.requests.count("assign")) == (0, 2, 1)
        await service.close()
        await service.close()


async def test_new_publishers_go_to_the_least_loaded() -> None:
    zero, one = Double("0"), Double("1")
    async with stage(zero, one) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p1")
        await announce_and_wait(service, "p2")
        assert sorted(map(len, allow_lists(zero, one))) == [1, 1]


async def test_publishers_announced_at_the_same_time_are_spread_all_the_same() -> None:
    doubles = [Double(str(n)) for n in range(4)]
    async with stage(*doubles) as it:
        service = await it.assigner()
        for n in range(20):
            service.announce(announcement(f"q{n}"))
        await service.wait_idle()
        assert [len(double.allowed) for double in doubles] == [5, 5, 5, 5]


async def test_preferred_publishers_go_to_their_indexer_despite_its_load() -> None:
    zero = Double("0")
    one = Double("1", allowed={peer("q"): "", peer("r"): ""}, preferred_ones=[P1, P2, P3])
    async with stage(zero, one) as it:
        service = await it.assigner()
        for publisher in ("p1", "p2", "p3"):
            await announce_and_wait(service, publisher)
        assert allow_lists(zero, one) == [set(), {P1, P2, P3, peer("q"), peer("r")}]


async def test_an_indexer_without_a_preference_list_is_used() -> None:
    only = Double("0", has_preferred=False)
    async with stage(only) as it:
        await announce_and_wait(await it.assigner(), "p1")
        assert allow_lists(only) == [{P1}]


async def test_an_indexer_that_was_offline_at_start_is_assumed_to_hold_what_is_announced() -> None:
    zero, one = Double("0"), Double("1", is_offline=True)
    async with stage(zero, one) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p1")
        assert allow_lists(zero, one) == [set(), set()]
        assert service.short == (P1,)
        one.is_offline = False
        await announce_and_wait(service, "p1", head=1)
        assert [len(each) for each in allow_lists(zero, one)] in ([1, 0], [0, 1])
        assert service.short == ()


async def test_the_poll_serves_what_had_to_wait_without_another_announcement() -> None:
    zero, one = Double("0"), Double("1", is_offline=True, allowed={P1: ""})
    async with stage(zero, one) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p1")
        one.is_offline = False
        await poll_and_wait(service)
        assert allow_lists(zero, one) == [set(), {P1}]
        assert one.heads("p1") == 1
        assert service.short == ()


async def test_a_head_without_an_assignee_may_be_announced_again() -> None:
    only = Double("0", is_frozen=True)
    async with stage(only) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p1")
        only.is_frozen = False
        await poll_and_wait(service)
        assert allow_lists(only) == [{P1}]
        await announce_and_wait(service, "p1")
        await announce_and_wait(service, "p1")
        assert only.heads("p1") == 2  # once when assigned, once when repeated, and then it is known


async def test_each_publisher_of_a_frozen_indexer_is_handed_off_once() -> None:
    zero, one = Double("0", allowed={P1: ""}), Double("1", allowed={P2: "", peer("q"): ""})
    async with stage(zero, one) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p3")
        assert set(zero.allowed) == {P1, P3}
        zero.is_frozen = True
        await poll_and_wait(service)
        await poll_and_wait(service)
        assert sorted(one.handoffs) == sorted((publisher, zero.id, it.urls["0"]) for publisher in (P1, P3))
        assert zero.handoffs == []


async def test_without_indexers_an_announcement_is_accepted_and_forwarded() -> None:
    target = Double("elsewhere", allowed={P1: ""})
    async with stage(target) as it:
        url = it.urls["elsewhere"]
        service = await it.assigner(Configuration(forward_urls=(url,)))
        await announce_and_wait(service, "p1")
        assert target.heads("p1") == 1
        assert service.short == ()


async def test_a_repeated_announcement_causes_no_requests() -> None:
    only = Double("0")
    async with stage(only) as it:
        service = await it.assigner()
        for _ in range(3):
            await announce_and_wait(service, "p1")
        assert only.heads("p1") == 1
        for head in range(1, services.HEADS_REMEMBERED_MAX + 1):
            await announce_and_wait(service, "p1", head)
        await announce_and_wait(service, "p1")
        assert only.heads("p1") == services.HEADS_REMEMBERED_MAX + 2


async def test_a_publisher_the_policy_bars_is_refused_before_anything_is_passed_on() -> None:
    only = Double("0", allowed={P1: ""})
    async with stage(only) as it:
        service = await it.assigner(it.configuration(exceptions=frozenset({P1}), forward_urls=(it.urls["0"],)))
        with pytest.raises(Forbidden, match="policy"):
            service.announce(announcement("p1"))
        await service.wait_idle()
        assert only.announced == []


# Defects of the reference that must not be repeated


async def test_after_a_restart_the_receiver_of_a_handoff_counts_and_the_frozen_one_does_not() -> None:
    """First defect: the receiver is forgotten, and announcements go to the frozen one only."""
    frozen, active = Double("0", is_frozen=True, allowed={P1: ""}), Double("1", allowed={P1: peer("0")})
    spare = Double("2")
    async with stage(frozen, active, spare) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p1")
        assert (frozen.heads("p1"), active.heads("p1")) == (1, 1)
        assert active.handoffs == spare.handoffs == []
        assert spare.allowed == {}


async def test_a_frozen_indexer_that_was_offline_at_start_is_not_handed_off_a_second_time() -> None:
    """Second defect: proof of a handoff is looked for only among those who answered in the same round."""
    frozen = Double("0", is_frozen=True, is_offline=True, allowed={P1: ""})
    active, spare = Double("1", allowed={P1: peer("0")}), Double("2")
    async with stage(frozen, active, spare) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p1")
        frozen.is_offline = False
        await poll_and_wait(service)
        await announce_and_wait(service, "p1", head=1)
        assert active.handoffs == spare.handoffs == []
        assert spare.allowed == {}


async def test_handoffs_are_spread_and_counted() -> None:
    """Third defect: counters stay as they were before a handoff."""
    frozen = Double("0", allowed={peer(f"q{n}"): "" for n in range(6)})
    async with stage(frozen, Double("1"), Double("2"), Double("3")) as it:
        service = await it.assigner()
        frozen.is_frozen = True
        await poll_and_wait(service)
        assert [len(double.allowed) for double in it.doubles] == [6, 2, 2, 2]
        await announce_and_wait(service, "p1")
        await announce_and_wait(service, "p2")
        await announce_and_wait(service, "p3")
        assert [len(double.allowed) for double in it.doubles] == [6, 3, 3, 3]


async def test_one_failing_publisher_does_not_delay_the_others_and_is_retried() -> None:
    """Fourth defect: the first failure ends the round."""
    frozen, one = Double("0", allowed={P1: "", P2: "", P3: ""}), Double("1", refusing={P2})
    async with stage(frozen, one) as it:
        service = await it.assigner()
        frozen.is_frozen = True
        await poll_and_wait(service)
        assert allow_lists(one) == [{P1, P3}]
        assert service.pool_state.pending_handoffs() == {it.urls["0"]: (P2,)}
        one.refusing.clear()
        await poll_and_wait(service)
        assert allow_lists(one) == [{P1, P2, P3}]
        assert service.pool_state.pending_handoffs() == {it.urls["0"]: ()}


async def test_polls_and_announcements_at_the_same_time_hand_a_publisher_off_once() -> None:
    """Fifth defect: the poller reads what others are writing."""
    frozen, one, two = Double("0", is_frozen=True, allowed={P1: ""}), Double("1"), Double("2")
    async with stage(frozen, one, two) as it:
        gate = asyncio.Event()
        one.gates["handoff"] = two.gates["handoff"] = gate
        service = await it.assigner_unasked()
        await service.poll()
        service.announce(announcement("p1"))
        await service.poll()
        gate.set()
        await service.wait_idle()
        assert len(one.handoffs) + len(two.handoffs) == 1
        assert frozen.heads("p1") + one.heads("p1") + two.heads("p1") == 2


async def test_a_frozen_holder_does_not_count_even_before_its_handoff() -> None:
    """Sixth defect: until the handoff is complete, an announcement finds enough holders and repairs nothing."""
    zero, one, two = Double("0", allowed={P1: ""}), Double("1"), Double("2")
    async with stage(zero, one, two) as it:
        service = await it.assigner(it.configuration(replication=2))
        one.refusing = two.refusing = {P1}
        zero.is_frozen = True
        await poll_and_wait(service)
        one.refusing = two.refusing = set()
        await announce_and_wait(service, "p1")
        assert sorted([*one.allowed.values(), *two.allowed.values()]) == ["", zero.id]
        assert len(one.handoffs) + len(two.handoffs) == 1


async def test_an_indexer_removed_from_the_pool_is_replaced_at_the_next_announcement() -> None:
    """Seventh: by absence, and ingested from the beginning."""
    zero, one = Double("0"), Double("1", allowed={peer("q"): ""})
    async with stage(zero, one) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p1")
        assert allow_lists(zero) == [{P1}]
        await service.reload(it.configuration("1"))
        await poll_and_wait(service)
        assert P1 not in one.allowed
        await announce_and_wait(service, "p1", head=1)
        assert one.allowed[P1] == ""
        assert zero.heads("p1") == 1


# Freezing, thawing, presets


async def test_a_preset_publisher_whose_indexers_are_all_frozen_waits_and_never_leaks() -> None:
    zero, one, two = Double("0", allowed={P1: ""}), Double("1", is_frozen=True), Double("2")
    async with stage(zero, one, two) as it:
        service = await it.assigner(it.configuration(presets={"0": ("p1",), "1": ("p1",)}))
        zero.is_frozen = True
        await poll_and_wait(service)
        await announce_and_wait(service, "p1")
        assert two.allowed == {}
        assert service.pool_state.pending_handoffs()[it.urls["0"]] == (P1,)
        assert any(advice.kind == "stuck" for advice in advise(service.pool_state))
        one.is_frozen = False
        await poll_and_wait(service)
        assert one.allowed == {P1: zero.id}


async def test_an_unfrozen_indexer_is_detected_and_used_again() -> None:
    zero, one = Double("0", is_frozen=True), Double("1", allowed={P1: "", P2: ""})
    async with stage(zero, one) as it:
        service = await it.assigner()
        zero.is_frozen = False
        await poll_and_wait(service)
        await announce_and_wait(service, "p3")
        assert allow_lists(zero) == [{P3}]


async def test_a_publisher_the_frozen_indexer_no_longer_has_starts_over_at_its_new_indexer() -> None:
    frozen, one = Double("0", is_frozen=True, allowed={P1: ""}), Double("1", dropped_publishers={P1})
    async with stage(frozen, one) as it:
        service = await it.assigner()
        assert one.allowed == {}
        await poll_and_wait(service)
        assert len(one.handoffs) == 1  # it is not requested again and again
        await announce_and_wait(service, "p1")
        assert one.allowed == {P1: ""}
        assert one.heads("p1") == 1


async def test_handoffs_go_on_when_an_indexer_is_added_without_a_restart() -> None:
    frozen = Double("0", is_frozen=True, allowed={P1: "", P2: ""})
    async with stage(frozen) as it:
        service = await it.assigner()
        assert service.pool_state.pending_handoffs() == {it.urls["0"]: tuple(sorted((P1, P2)))}
        added = Double("1")
        await it.open(added)
        await service.reload(it.configuration())
        await poll_and_wait(service)
        assert set(added.allowed) == {P1, P2}


# Refusals, slowness, loss


async def test_a_refusal_sends_the_assigner_to_the_next_candidate() -> None:
    zero, one = Double("0", refusing={P1}), Double("1", allowed={P2: ""})
    async with stage(zero, one) as it:
        service = await it.assigner()
        await announce_and_wait(service, "p1")
        assert allow_lists(zero, one) == [set(), {P1, P2}]


async def test_an_indexer_frozen_between_polls_rejects_and_counts_as_frozen_from_then_on() -> None:
    zero, one = Double("0", allowed={P3: ""}), Double("1", allowed={P2: "", peer("q"): ""})
    async with stage(zero, one) as it:
        service = await it.assigner()
        zero.is_frozen = True
        await announce_and_wait(service, "p1")
        assert P1 in one.allowed
        assert service.pool_state.pending_handoffs() == {it.urls["0"]: (P3,)}


async def test_an_assignment_made_outside_the_assigner_is_recognised() -> None:
    zero, one = Double("0"), Double("1", allowed={P2: ""})
    async with stage(zero, one) as it:
        service = await it.assigner()
        zero.allowed[P1] = ""
        await announce_and_wait(service, "p1")
        assert P1 not in one.allowed
        assert zero.heads("p1") == 1


async def test_a_slow_indexer_delays_only_those_who_need_it() -> None:
    slow, quick = Double("0"), Double("1")
    async with stage(slow, quick) as it:
        service = await it.assigner(it.configuration(presets={"0": ("p1",), "1": ("p2",)}))
        slow.gates["assign"] = asyncio.Event()
        service.announce(announcement("p1"))
        service.announce(announcement("p2"))
        await until(lambda: quick.announced)
        assert (allow_lists(slow, quick), len(quick.announced)) == ([set(), {P2}], 1)
        slow.gates.pop("assign").set()
        await service.wait_idle()
        assert allow_lists(slow) == [{P1}]


async def test_a_request_without_an_answer_is_retried_and_then_sent_to_another_indexer() -> None:
    hanging, other = Double("0", silent={"assign"}), Double("1", allowed={P2: ""})
    service = await assigner_of(hanging, other)
    await announce_and_wait(service, "p1")
    assert allow_lists(hanging, other) == [set(), {P1, P2}]
    assert service.short == ()
    await service.close()


async def test_a_request_that_succeeded_with_a_lost_answer_is_recognised() -> None:
    losing, other = Double("0", is_losing=True), Double("1", allowed={P2: ""})
    service = await assigner_of(losing, other)
    await announce_and_wait(service, "p1")
    assert allow_lists(losing, other) == [{P1}, {P2}]
    assert losing.heads("p1") == 1
    await service.close()


async def test_only_the_publisher_of_a_request_waits_for_the_indexer_that_stopped_answering() -> None:
    hanging, other = Double("0"), Double("1", allowed={P2: ""})
    service = await assigner_of(hanging, other)
    hanging.silent = {"assign", "status"}
    await announce_and_wait(service, "p1")
    assert P1 not in other.allowed  # it may have been assigned already
    assert service.short == (P1,)
    assigns = hanging.requests.count("assign")
    await announce_and_wait(service, "p3")  # the silent one is tried last
    assert (P3 in other.allowed, hanging.requests.count("assign")) == (True, assigns)
    hanging.silent = set()
    await poll_and_wait(service)
    assert (P1 in hanging.allowed) + (P1 in other.allowed) == 1
    assert service.short == ()
    await service.close()


async def test_too_many_announcements_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "PUBLISHERS_WAITING_MAX", 2)
    monkeypatch.setattr(services, "PUBLISHERS_AT_ONCE_MAX", 1)
    only = Double("0", gates={})
    async with stage(only) as it:
        service = await it.assigner()
        only.gates["assign"] = asyncio.Event()
        for publisher in ("p1", "p2", "p3"):
            service.announce(announcement(publisher))
        with pytest.raises(Unavailable, match="retry later"):
            service.announce(announcement("p4"))
        only.gates.pop("assign").set()
        await service.wait_idle()
        service.announce(announcement("p4"))
        await service.wait_idle()
        assert len(only.allowed) == 4


async def test_an_announcement_that_cannot_be_passed_on_is_counted() -> None:
    only = Double("0", allowed={P1: ""})
    async with stage(only) as it:
        service = await it.assigner()
        only.allowed.clear()
        await announce_and_wait(service, "p1")
        assert stats(service.telemetry.metrics) == (0, 1)


def stats(metrics: Metrics) -> tuple[float, float]:
    return metrics.value(m.DELIVERIES, outcome="sent"), metrics.value(m.DELIVERIES, outcome="failed")


async def test_private_addresses_are_dropped_if_configured() -> None:
    only = Double("0")
    async with stage(only) as it:
        service = await it.assigner(it.configuration(is_filtering=True))
        both = announcement("p1")
        public = "/dns4/example.org/tcp/443/https"
        addresses = (*both.publisher.addresses, public)
        service.announce(replace(both, publisher=replace(both.publisher, addresses=addresses)))
        await service.wait_idle()
        assert [each.publisher.addresses for each in only.announced] == [(public,)]


# Configuration at work


async def test_forwards_get_every_announcement_until_they_are_removed() -> None:
    only, elsewhere = Double("0"), Double("elsewhere", allowed={P1: ""})
    async with stage(only, elsewhere) as it:
        forwarding = it.configuration("0", forward_urls=(it.urls["elsewhere"],))
        service = await it.assigner(forwarding)
        await announce_and_wait(service, "p1")
        await announce_and_wait(service, "p1", head=1)
        await service.reload(it.configuration("0"))
        await announce_and_wait(service, "p1", head=2)
        assert (elsewhere.heads("p1"), only.heads("p1")) == (2, 3)


async def test_without_resending_only_new_assignments_are_announced() -> None:
    only = Double("0")
    async with stage(only) as it:
        service = await it.assigner(it.configuration(is_resending=False))
        await announce_and_wait(service, "p1")
        await announce_and_wait(service, "p1", head=1)
        assert only.heads("p1") == 1


async def test_the_state_of_remaining_indexers_survives_a_reload() -> None:
    zero, one = Double("0"), Double("1")
    async with stage(zero, one) as it:
        service = await it.assigner(it.configuration("0"))
        questions = zero.requests.count("status")
        await service.reload(it.configuration(replication=2))
        await announce_and_wait(service, "p1")
        assert allow_lists(zero, one) == [{P1}, {P1}]
        assert zero.requests.count("status") == questions  # only the new one was called


async def test_one_indexer_at_two_urls_counts_once() -> None:
    only = Double("0")
    async with stage(only) as it, serving(app_of(only)) as second:
        it.urls["again"] = second
        service = await it.assigner(it.configuration(replication=2))
        await announce_and_wait(service, "p1")
        assert only.requests.count("assign") == 1
        assert [advice.kind for advice in advise(service.pool_state)][:1] == ["twice"]


async def test_run_polls_at_once_and_after_a_reload() -> None:
    zero, one = Double("0", is_frozen=True, allowed={P1: ""}), Double("1")
    async with stage(zero, one) as it:
        service = await it.assigner_unasked(it.configuration("0", poll_s=0.0))
        running = asyncio.ensure_future(service.run())
        await until(service.is_ready)
        await service.reload(it.configuration(poll_s=0.0))
        await until(lambda: one.handoffs)
        await service.wait_idle()
        running.cancel()
        await asyncio.wait([running])
        assert one.allowed == {P1: zero.id}
