"""The pool file: its values, the settings for absent ones, and errors in it."""

import json
from typing import Any

import pytest

from argosy.base.errors import Invalid
from argosy.ipni.assigner.configuration import Configuration, PoolEntry, parse, seconds
from tests.ipni.assigner.doubles import peer

P1, P2 = peer("p1"), peer("p2")
A = {"AdminURL": "http://a:3002", "FindURL": "http://a:3000", "IngestURL": "http://a:3001"}
B = {"AdminURL": "http://b:3002", "FindURL": "http://b:3000", "IngestURL": "http://b:3001"}


def read(document: Any, defaults: Configuration | None = None) -> Configuration:
    return parse(json.dumps(document), defaults or Configuration())


def test_a_complete_file_of_the_reference_is_read_unchanged() -> None:
    document = {
        "Version": 1,
        "Identity": {"PeerID": "x", "PrivKey": "y"},
        "Bootstrap": {"Peers": [], "MinimumPeers": 4},
        "Daemon": {"HTTPAddr": "/ip4/0.0.0.0/tcp/3001"},
        "Logging": {"Level": "info"},
        "Peering": {"Peers": []},
        "Assignment": {
            "FilterIPs": True,
            "ForwardAnnounceURLs": ["http://x:1/", "http://x:1", "y:2"],
            "IndexerPool": [{**A, "PresetPeers": [P1]}, {**B, "PresetPeers": None}],
            "Policy": {"Allow": False, "Except": [P1, P2]},
            "PollInterval": "5m0s",
            "PresetReplication": 2,
            "PubSubTopic": "/indexer/ingest/mainnet",
            "Replication": 3,
            "ResendHttp": False,
            "ResendPubsub": False,
        },
    }
    assert read(document) == Configuration(
        entries=(
            PoolEntry("http://a:3002", "http://a:3000", "http://a:3001", frozenset({P1})),
            PoolEntry("http://b:3002", "http://b:3000", "http://b:3001"),
        ),
        replication=3,
        preset_replication=2,
        is_open=False,
        exceptions=frozenset({P1, P2}),
        forward_urls=("http://x:1", "http://y:2"),
        poll_s=300.0,
        is_resending=False,
        is_filtering=True,
    )


def test_keys_are_matched_in_any_case_and_the_scheme_may_be_omitted() -> None:
    entry = {"adminurl": "a:3002", "findURL": "a:3000/", "INGESTURL": "a:3001"}
    assert read({"indexerpool": [entry]}).entries == (PoolEntry("http://a:3002", "http://a:3000", "http://a:3001"),)


def test_toml_has_the_same_keys() -> None:
    text = """
    Replication = 2
    PollInterval = 30
    [[IndexerPool]]
    AdminURL = "http://a:1"
    FindURL = "http://a:1"
    IngestURL = "http://a:1"
    """
    found = parse(text, Configuration(), is_toml=True)
    assert found == Configuration((PoolEntry("http://a:1", "http://a:1", "http://a:1"),), replication=2, poll_s=30.0)


def test_values_absent_from_the_file_come_from_the_settings() -> None:
    defaults = Configuration(replication=4, poll_s=7.0, exceptions=frozenset({P1}), is_filtering=True)
    assert read({}, defaults) == defaults
    assert read({"Replication": 0, "Policy": {"Allow": False}}, defaults) == Configuration(
        replication=1, poll_s=7.0, exceptions=frozenset({P1}), is_open=False, is_filtering=True
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5m0s", 300), ("30s", 30), ("1h2m3.5s", 3723.5), ("250ms", 0.25), ("0", 0), ("0s", 0), (12, 12), (1.5, 1.5)],
)
def test_spans_are_read_as_the_reference_writes_them(text: object, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["5", "m", "-5s", "5 m", -1, True, None, "1h nonsense", []])
def test_an_invalid_duration_is_rejected(text: object) -> None:
    with pytest.raises(Invalid, match="PollInterval must be a duration"):
        seconds(text)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "should be a table"),
        ({"Replicas": 2}, "unknown key 'replicas'"),
        ({"Assignment": {}, "Extra": 1}, "unknown key 'extra'"),
        ({"Replication": -1}, "Replication must be at least 1, not -1"),
        ({"Replication": "2"}, "Replication should be a int"),
        ({"Replication": True}, "Replication should be a int"),
        ({"IndexerPool": [{**A, "IngestURL": ""}]}, "no IngestURL"),
        ({"IndexerPool": [{**A, "AdminURL": "ftp://a"}]}, "not the URL"),
        ({"IndexerPool": [{**A, "Weight": 1}]}, "unknown key 'weight'"),
        ({"IndexerPool": [{**A, "PresetPeers": ["nobody!"]}]}, "nobody!"),
        ({"IndexerPool": [A, {**B, "FindURL": A["IngestURL"]}]}, "http://a:3001 belongs to two indexers"),
        ({"IndexerPool": [A, A]}, "belongs to two indexers"),
        ({"IndexerPool": {"a": A}}, "IndexerPool should be a list"),
        ({"ForwardAnnounceURLs": ["gopher://x"]}, "not the URL"),
        ({"Policy": {"Deny": True}}, "unknown key 'deny'"),
        ({"ResendHttp": "yes"}, "ResendHttp should be a bool"),
    ],
)
def test_an_error_names_the_wrong_value(document: object, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read(document)


@pytest.mark.parametrize("is_toml", [False, True])
def test_an_unparsable_file_is_rejected(is_toml: bool) -> None:
    with pytest.raises(Invalid, match="is not TOML" if is_toml else "is not JSON"):
        parse("{", Configuration(), is_toml=is_toml)


def test_presets_bind_a_publisher_to_the_indexers_that_name_it() -> None:
    found = read({"IndexerPool": [{**A, "PresetPeers": [P1, P2]}, {**B, "PresetPeers": [P1]}]})
    assert dict(found.policy().presets) == {P1: ("http://a:3002", "http://b:3002"), P2: ("http://a:3002",)}


def test_one_indexer_may_serve_all_its_apis_at_one_url() -> None:
    one = {"AdminURL": "http://a:1", "FindURL": "http://a:1", "IngestURL": "http://a:1"}
    assert len(read({"IndexerPool": [one, B]}).entries) == 2
