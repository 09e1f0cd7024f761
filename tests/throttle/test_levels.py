"""The buckets of a client: pinned, because every instance of every release must compute the same ones."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.throttle.levels import SEED_MAX, double, levels_of
from argosy.throttle.model import Config

# From the Go original: client, murmur seed, buckets of three levels of 1000.
ORIGINAL = [
    ("", 0, (0, 0, 0)),
    ("a", 1, (576, 943, 310)),
    ("hello world", 5, (399, 340, 577)),
    ("client_id", 12345, (739, 487, 939)),
    ("steady-000", 4294967295, (676, 315, 954)),
    ("aggressive-019", 0, (180, 811, 442)),
    ("a-somewhat-longer-client-identifier-0123456789", 12345, (337, 220, 807)),
]
SEED = 1_700_000_100_000
PINNED = [
    (Config(), ("a", (475, 567, 815)), ("client-7", (778, 72, 59))),
    (Config(levels=6), ("a", (475, 567, 815, 834, 664, 353)), ("client-7", (778, 72, 59, 227, 775, 968))),
    (Config(secret=b"s"), ("a", (945, 883, 52)), ("client-7", (767, 721, 914))),
    (Config(hashing="double"), ("a", (714, 942, 170)), ("client-7", (782, 160, 538))),
]

configs = st.builds(
    Config,
    levels=st.integers(1, 40),
    buckets=st.integers(1, 2000),
    hashing=st.sampled_from(["slices", "double"]),
    secret=st.none() | st.binary(min_size=1, max_size=100),
)
seeds = st.integers(0, SEED_MAX)


@pytest.mark.parametrize(("client", "seed", "buckets"), ORIGINAL)
def test_double_hashing_is_that_of_the_original(client: str, seed: int, buckets: tuple[int, ...]) -> None:
    assert double(3, 1000, seed)(client.encode()) == buckets


@pytest.mark.parametrize(("config", "first", "second"), PINNED)
def test_every_release_computes_the_same_buckets(
    config: Config, first: tuple[str, tuple[int, ...]], second: tuple[str, tuple[int, ...]]
) -> None:
    levels = levels_of(config, SEED)
    assert [(client, levels(client.encode())) for client, _ in (first, second)] == [first, second]


def test_slices_come_from_the_published_digest_of_no_bytes() -> None:
    """XXH3 of 128 bits, of no bytes, with seed 0, is 99aa06d3 014798d8 6001c324 468d497f."""
    words = (0xD306AA99, 0xD8984701, 0x24C30160)
    assert levels_of(Config(), 0)(b"") == tuple(word % 1000 for word in words)


@given(config=configs, seed=seeds, client=st.binary(max_size=200))
def test_there_is_one_bucket_on_each_level_and_always_the_same(config: Config, seed: int, client: bytes) -> None:
    found = levels_of(config, seed)(client)
    assert len(found) == config.levels
    assert all(0 <= bucket < config.buckets for bucket in found)
    assert levels_of(config, seed)(client) == found


@pytest.mark.parametrize("config", [Config(), Config(secret=b"secret"), Config(hashing="double")])
def test_another_window_has_other_buckets(config: Config) -> None:
    clients = [b"client-%d" % n for n in range(200)]
    one, two = levels_of(config, 0), levels_of(config, 300_000)
    assert sum(one(client) == two(client) for client in clients) == 0


@pytest.mark.parametrize("hashing", ["slices", "double"])
def test_another_secret_gives_other_buckets(hashing: str) -> None:
    clients = [b"client-%d" % n for n in range(200)]
    found = [levels_of(Config(hashing=hashing, secret=secret), SEED) for secret in (None, b"one", b"two", b"x" * 65)]
    for one, two in combinations(found, 2):
        assert sum(one(client) == two(client) for client in clients) == 0


def test_a_secret_that_no_text_could_be_is_one_all_the_same() -> None:
    assert levels_of(Config(secret=b"\xff" * 200), SEED)(b"a") != levels_of(Config(secret=b"\xff" * 199), SEED)(b"a")


@pytest.mark.parametrize(("config", "meet_max"), [(Config(buckets=100), 20), (Config(buckets=100, secret=b"s"), 20)])
def test_clients_that_meet_on_two_levels_part_on_the_third(config: Config, meet_max: int) -> None:
    assert meetings(config) <= meet_max  # 8 are to be expected of two million pairs


def test_with_double_hashing_they_do_not_part() -> None:
    assert meetings(Config(buckets=100, hashing="double")) > 40


def meetings(config: Config) -> int:
    """Pairs of 2000 clients that share their buckets on every level."""
    levels = levels_of(config, SEED)
    shared = Counter(levels(b"client-%d" % n) for n in range(2000))
    return sum(count * (count - 1) // 2 for count in shared.values())


def test_buckets_are_used_evenly() -> None:
    levels = levels_of(Config(buckets=10), SEED)
    for level in range(3):
        used = Counter(levels(b"client-%d" % n)[level] for n in range(10_000))
        assert all(850 < count < 1150 for count in used.values())


@pytest.mark.parametrize("seed", [-1, SEED_MAX + 1])
def test_a_seed_has_64_bits(seed: int) -> None:
    with pytest.raises(Invalid, match="64 bits"):
        levels_of(Config(), seed)
