import pytest

from argosy.base.errors import Invalid
from argosy.ipni.keyspace.layout import KeyspaceLayout, NodeSet, format_layout, parse_layout
from tests.ipni.keyspace.test_plan import moving, side


@pytest.mark.parametrize(
    "layout", [KeyspaceLayout(1, side("ab")), moving("abc", "abd", 3), moving("ab", "b", 1, frozenset("a"))]
)
def test_a_layout_is_read_as_it_was_written(layout: KeyspaceLayout) -> None:
    assert parse_layout(format_layout(layout)) == layout


def test_a_layout_may_be_toml() -> None:
    text = 'version = 1\nreplicas = 2\n[nodes]\na = "10.0.0.1:3010"\nb = "http://10.0.0.2:3010/"\n'
    nodes = {"a": "http://10.0.0.1:3010", "b": "http://10.0.0.2:3010"}
    assert parse_layout(text, is_toml=True) == KeyspaceLayout(1, NodeSet(nodes, 2))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"version": 1}',
        '{"version": "1", "nodes": {"a": "http://a"}}',
        '{"version": 1, "nodes": {"a": "http://a"}, "replica": 2}',
        '{"version": 1, "nodes": {"a": "ftp://a"}}',
        '{"version": 1, "nodes": {"a b": 1}}',
        '{"version": 1, "nodes": {}}',
    ],
)
def test_an_invalid_layout_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        parse_layout(text)
