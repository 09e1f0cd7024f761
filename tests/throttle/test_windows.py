"""Two windows that rotate by the clock, and the clients cached in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.throttle.levels import levels_of
from argosy.throttle.model import ClientId, Config
from argosy.throttle.windows import CLIENT_ID_REMEMBERED_MAX, Windows

W = 300_000
START = 1_700_000_100_000  # a multiple of the window


def windows(now_ms: int = START, config: Config | None = None, weight: float | None = None) -> Windows:
    weight_of = None if weight is None else (lambda _: weight)
    return Windows(config or Config(), now_ms, levels=levels_of, weight_of=weight_of)


@given(st.integers(0, 2 * START), st.integers(100, 10**7))
def test_a_seed_is_the_time_rounded_to_the_window(now_ms: int, window_ms: int) -> None:
    client_windows = windows(now_ms, Config(window_s=window_ms / 1000))
    assert client_windows.main.seed % window_ms == 0
    assert client_windows.main.seed <= now_ms < client_windows.main.seed + window_ms
    assert client_windows.next.seed == client_windows.main.seed + window_ms


def test_when_its_time_is_up_the_warm_window_decides() -> None:
    client_windows = windows()
    warm = client_windows.next
    assert not client_windows.rotate(START + W - 1)
    assert client_windows.rotate(START + W)
    assert client_windows.main is warm
    assert client_windows.next.seed == START + 2 * W
    assert client_windows.next.existing_buckets() == []


def test_after_a_long_sleep_both_windows_are_new() -> None:
    client_windows = windows()
    before = client_windows.next
    assert client_windows.rotate(START + 5 * W + 1)
    assert (client_windows.main.seed, client_windows.next.seed) == (START + 5 * W, START + 6 * W)
    assert client_windows.main is not before


def test_a_clock_slightly_behind_does_not_rotate_windows_back() -> None:
    client_windows = windows()
    client_windows.rotate(START + W)
    assert not client_windows.rotate(START + W - 30_000)
    assert not client_windows.rotate(START)
    assert client_windows.main.seed == START + W


def test_a_clock_far_ahead_is_used_again_when_it_returns() -> None:
    client_windows = windows(START + 100 * W)
    assert client_windows.rotate(START)
    assert client_windows.main.seed == START


def test_only_the_two_windows_are_found_by_seed() -> None:
    client_windows = windows()
    assert client_windows.of_seed(START) is client_windows.main
    assert client_windows.of_seed(START + W) is client_windows.next
    assert client_windows.of_seed(START - W) is None


def test_a_client_has_buckets_in_both_windows() -> None:
    client_windows = windows()
    main, both, weight = client_windows.entry("a")
    assert both[:3] == main
    assert {bucket.seed for bucket in both[3:]} == {START + W}
    assert weight == 1.0


def test_after_a_rotation_every_client_is_looked_up_again() -> None:
    client_windows = windows()
    before = client_windows.entry("a")
    client_windows.rotate(START + W)
    after = client_windows.entry("a")
    assert after[0] == before[1][3:]
    assert "a" in client_windows.clients()


def test_text_and_its_bytes_are_the_same_client() -> None:
    client_windows = windows()
    assert client_windows.entry("größe")[0] == client_windows.entry("größe".encode())[0]
    assert len(client_windows.entry("\udcff")[0]) == 3  # what a header that is no UTF-8 is decoded to


@pytest.mark.parametrize("clients_max", [2, 3, 10, 64])
def test_memory_for_clients_is_bounded(clients_max: int) -> None:
    client_windows = windows(config=Config(clients_max=clients_max))
    for number in range(10 * clients_max):
        client_windows.entry(f"client-{number}")
        assert len(client_windows.clients()) <= clients_max


def test_an_active_client_stays_cached() -> None:
    client_windows = windows(config=Config(clients_max=8))
    often = client_windows.entry("often")
    for number in range(100):
        client_windows.entry(f"client-{number}")
        assert client_windows.entry("often") is often


def test_a_long_id_takes_no_memory() -> None:
    client_windows = windows()
    long: ClientId = "x" * (CLIENT_ID_REMEMBERED_MAX + 1)
    assert client_windows.entry(long) == client_windows.entry(long)
    assert client_windows.clients() == {}


def test_an_id_is_text_or_bytes() -> None:
    with pytest.raises(Invalid, match="text or bytes"):
        windows().entry(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_is_a_positive_number(weight: float) -> None:
    with pytest.raises(Invalid, match="weight"):
        windows(weight=weight).entry("a")
