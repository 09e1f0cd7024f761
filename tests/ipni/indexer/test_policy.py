"""Who may publish and provide."""

import pytest

from argosy.base.errors import Forbidden
from argosy.ipni.indexer.policy import policy_of
from argosy.ipni.settings import IndexerSettings


def test_by_default_any_publisher_may_publish_for_any_provider() -> None:
    policy_of(IndexerSettings()).check("publisher", "provider")
    assert policy_of(IndexerSettings()).may_publish("publisher", "provider")


def test_exceptions_turn_the_default_round() -> None:
    closed = policy_of(IndexerSettings(allow=False, allow_except=("friend",)))
    assert closed.is_allowed("friend")
    assert not closed.is_allowed("stranger")
    opened = policy_of(IndexerSettings(allow_except=("enemy",)))
    assert not opened.is_allowed("enemy")
    with pytest.raises(Forbidden, match="enemy is not allowed by policy"):
        opened.check("friend", "enemy")


def test_one_may_always_publish_for_oneself() -> None:
    policy = policy_of(IndexerSettings(publish=False))
    policy.check("a", "a")
    with pytest.raises(Forbidden, match="not allowed to publish for provider b"):
        policy.check("a", "b")


def test_rules_for_a_provider_outrank_the_rule_for_all() -> None:
    policy = policy_of(IndexerSettings(publish=False, publishers_for=("p=a", "q=!b", "r=c", "r=!c")))
    assert policy.may_publish("a", "p")
    assert not policy.may_publish("b", "p")
    assert policy.may_publish("a", "q")
    assert not policy.may_publish("b", "q")
    assert not policy.may_publish("c", "r"), "a blocked publisher stays blocked"


def test_operator_decisions_survive_a_reload() -> None:
    policy = policy_of(IndexerSettings())
    policy.block("x")
    policy.change(IndexerSettings(allow=False))
    policy.allow("y")
    assert not policy.is_allowed("x")
    assert policy.is_allowed("y")
    assert not policy.is_allowed("z")
