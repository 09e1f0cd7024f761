"""Publishers that stopped announcing, in virtual time; and announcements that fail."""

from dataclasses import replace

import pytest

from argosy.base.errors import Forbidden, Invalid
from argosy.ipni.formats import cid as cids
from argosy.ipni.indexer.maintenance import ContactLog
from argosy.ipni.indexer.resolver import sample_places
from argosy.ipni.indexer.sync_service import RECENT_MAX, TRIAL_S, PausedPublishers, RecentHeads
from argosy.ipni.indexer.telemetry import HISTORY_MAX, PublisherStatuses, format_duration
from argosy.ipni.model import Peer, Provider
from argosy.ipni.settings import DAY_S, HOUR_S, IndexerSettings

SETTINGS = IndexerSettings()
PROVIDER = Provider("provider", ("/a",), Peer("publisher", ("/a",)))


def test_a_silent_publisher_is_polled_hidden_and_removed_in_turn() -> None:
    contacts = ContactLog(0.0)

    def plan_counts(now: float, provider: Provider = PROVIDER) -> tuple[int, int, int]:
        found = contacts.plan_polls([provider], SETTINGS, now, polls_max=5)
        return len(found.polls), len(found.deactivations), len(found.removals)

    assert plan_counts(0.0) == (1, 0, 0), "announcements sent while we were down were not received"
    contacts.on_poll("publisher", 0.0)
    assert plan_counts(DAY_S - 1) == (0, 0, 0)
    assert plan_counts(DAY_S) == (1, 0, 0)
    contacts.on_poll("publisher", DAY_S)
    assert plan_counts(DAY_S + 5 * HOUR_S - 1) == (0, 0, 0)
    assert plan_counts(DAY_S + 5 * HOUR_S) == (1, 0, 0)
    assert plan_counts(7 * DAY_S) == (1, 1, 0)
    assert plan_counts(7 * DAY_S, replace(PROVIDER, is_inactive=True)) == (1, 0, 0)
    assert plan_counts(14 * DAY_S) == (0, 0, 1)
    contacts.on_contact("publisher", 14 * DAY_S)
    assert plan_counts(14 * DAY_S) == (0, 0, 0)


def test_a_provider_with_an_error_is_polled_every_time_and_never_too_many_at_once() -> None:
    failed = [Provider(f"p{number}", ("/a",), Peer(f"q{number}", ("/a",)), last_error="broken") for number in range(9)]
    assert len(ContactLog(0.0).plan_polls(failed, SETTINGS, 1.0, polls_max=5).polls) == 5
    nowhere = replace(failed[0], publisher=Peer("q", ()))
    assert ContactLog(0.0).plan_polls([nowhere], SETTINGS, 1.0, polls_max=5).polls == [], "there is no address to poll"


def test_providers_with_errors_do_not_prevent_polling_a_silent_one() -> None:
    contacts = ContactLog(0.0)
    failed = [Provider(f"p{number}", ("/a",), Peer(f"q{number}", ("/a",)), last_error="broken") for number in range(9)]
    providers = [*failed, PROVIDER]
    polled: list[str] = []
    for minute in range(4):
        now = DAY_S + 60.0 * minute
        contacts.on_contact("q0", now)  # one announces all the time, and always fails
        polls = contacts.plan_polls(providers, SETTINGS, now, polls_max=3).polls
        for publisher in polls:
            contacts.on_poll(publisher, now)
        polled += polls
    assert "publisher" in polled
    assert {f"q{number}" for number in range(1, 9)} <= set(polled)


def test_a_publisher_that_announces_itself_is_not_polled_before_its_announcement() -> None:
    contacts = ContactLog(0.0, announcing=["publisher"])
    failed = replace(PROVIDER, last_error="broken")
    assert contacts.plan_polls([failed], SETTINGS, 0.0, polls_max=5).polls == [], (
        "its address may be that of an earlier run"
    )
    assert contacts.plan_polls([failed], SETTINGS, 7 * DAY_S, polls_max=5).deactivations == ["provider"], (
        "it never came back"
    )
    contacts.on_contact("publisher", 1.0)
    assert contacts.plan_polls([failed], SETTINGS, 1.0, polls_max=5).polls == ["publisher"]


def test_the_last_heads_are_kept_until_they_fail() -> None:
    recent = RecentHeads()
    heads = [cids.of(str(number).encode()) for number in range(RECENT_MAX + 1)]
    assert all(recent.is_new(head) for head in heads)
    assert not recent.is_new(heads[-1])
    assert recent.is_new(heads[0]), "the oldest was evicted"
    recent.invalidate(heads[-1])
    assert recent.is_new(heads[-1])


def test_a_paused_publisher_gets_a_trial_after_its_pause() -> None:
    pauses = PausedPublishers(100.0)
    pauses.pause("p", 0.0)
    with pytest.raises(Forbidden, match="another 1 s"):
        pauses.check("p", 99.0)
    pauses.check("p", 100.0)
    pauses.pause("p", 100.0)
    assert pauses.is_paused("p", 100.0 + TRIAL_S - 1)
    assert not pauses.is_paused("p", 100.0 + TRIAL_S)
    pauses.lift("p")
    pauses.pause("p", 0.0)
    assert not pauses.is_paused("p", 100.0)


def test_a_status_shows_the_running_and_the_last_sync() -> None:
    statuses = PublisherStatuses()
    status = statuses.of("p")
    for number in range(HISTORY_MAX + 3):
        status.scan.begin(float(number), AdsScanned=number)
    status.scan.now.add("AdsScanned", 5)  # type: ignore[union-attr]
    shown = statuses.to_json(100.0)["p"]
    assert isinstance(shown, dict)
    assert shown["Scan"]["AdsScanned"] == HISTORY_MAX + 7
    assert shown["Scan"]["Ongoing"] is True
    assert [run["AdsScanned"] for run in shown["ScanHistory"]] == list(range(HISTORY_MAX + 1, 1, -1))
    assert "Processing" not in shown
    assert statuses.to_json(100.0, "nobody") == {}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "250ms"), (15.2, "15s"), (75, "1m15s"), (3725, "1h2m5s"), (-1, "0ms")]
)
def test_spans_are_written_as_the_original_does(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_sampling_is_bounded() -> None:
    assert len(set(sample_places(b"b", 10))) == 10
    with pytest.raises(Invalid, match="beacon"):
        sample_places(b"b" * 33, 1)
    with pytest.raises(Invalid, match="1 to 10"):
        sample_places(b"", 11)
