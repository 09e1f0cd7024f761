"""The format of keys: any printable name, and no name within another."""

from hypothesis import given
from hypothesis import strategies as st

from argosy.ownership.backends.etcd_records import KEY_DOCS, EtcdKeys
from argosy.ownership.model import SessionRole, Space, Unit

KEYS = EtcdKeys("", "argosy", Space("repos", is_auctioned=True))
NAMES = st.text(min_size=1, max_size=20).filter(str.isprintable)


@given(NAMES, st.integers(-1, 8), NAMES)
def test_every_name_round_trips_through_its_key(name: str, replica: int, node: str) -> None:
    unit = Unit(name, replica)
    kind, key, bidder = KEYS.split(KEYS.bid(unit, node))
    assert (kind, Unit.from_key(key), bidder) == ("bids", unit, node)
    assert KEYS.split(KEYS.lease(unit)) == ("leases", unit.key)
    assert KEYS.split(KEYS.session(SessionRole.MEMBER, node)) == ("members", node)


@given(NAMES, NAMES, NAMES)
def test_no_units_bids_are_anothers(name: str, other: str, node: str) -> None:
    is_among = KEYS.bid(Unit(other), node).startswith(KEYS.bids(Unit(name)))
    assert is_among == (name == other)


def test_a_slash_in_a_name_adds_no_path_part() -> None:
    unit = Unit("https://forge/a/b")
    assert KEYS.lease(unit) == b"/argosy/repos/leases/0:https:%2F%2Fforge%2Fa%2Fb"
    assert not KEYS.bid(Unit("a/b"), "n").startswith(KEYS.bids(Unit("a")))


def test_the_urls_prefix_comes_first() -> None:
    keys = EtcdKeys("fleet/west", "argosy", Space("repos", is_auctioned=True))
    assert keys.meta == b"/fleet/west/argosy/repos/meta"


def test_every_kind_of_key_is_documented() -> None:
    unit = Unit("u")
    spelt = {
        KEYS.meta,
        KEYS.grace,
        KEYS.max_bids,
        KEYS.lease(unit),
        KEYS.auction(unit),
        KEYS.bid(unit, "n"),
        KEYS.pending("n"),
        KEYS.session(SessionRole.MEMBER, "n"),
        KEYS.session(SessionRole.HOLDER, "n"),
    }
    assert {doc.name.split("/")[0] for doc in KEY_DOCS} == {KEYS.split(key)[0] for key in spelt}
    assert len(KEY_DOCS) == len(spelt)
