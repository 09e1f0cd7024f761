"""Query trees are decoded as encoded; anything else is an `Invalid` error."""

from collections.abc import Callable
from math import inf, nan

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.search.query import codec
from argosy.search.query.codec import (
    DEPTH_MAX,
    NODES_MAX,
    QUERY_BYTES_MAX,
    QUERY_VERSION,
    UnsupportedQueryVersion,
    decode_query,
    encode_query,
)
from argosy.search.query.lex import NESTING_MAX
from argosy.search.query.parse import ATOMS_MAX, QUERY_CHARACTERS_MAX, parse
from argosy.search.query.tree import (
    TRUE,
    Alias,
    And,
    Boost,
    BranchesRepos,
    Const,
    FileNameSet,
    Flag,
    Language,
    Meta,
    Not,
    OnBranch,
    Or,
    Query,
    Regexp,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Scope,
    Substring,
    Symbol,
    Type,
)
from tests.search.query.test_parse import CONFORMANCE

patterns = st.text(max_size=12)  # whether RE2 accepts one is not the codec's business
names = st.one_of(patterns, st.binary(max_size=8).map(lambda data: data.decode(errors="surrogateescape")))
scopes = st.sampled_from(Scope)
ids = st.frozensets(st.integers(0, 2**32 - 1), max_size=4)
atoms = st.one_of(
    st.builds(Substring, names, st.booleans(), scopes), st.builds(Regexp, patterns, st.booleans(), scopes)
)
leaves: st.SearchStrategy[Query] = st.one_of(
    atoms,
    st.builds(Symbol, atoms),
    st.builds(Const, st.booleans()),
    st.builds(Language, st.none() | names),
    st.builds(Repo, patterns),
    st.builds(RepoSet, st.frozensets(names, max_size=4)),
    st.builds(RepoIds, ids),
    st.builds(Alias, names),
    st.builds(OnBranch, names, st.booleans()),
    st.lists(st.tuples(names, ids), max_size=3).map(lambda pairs: BranchesRepos(tuple(pairs))),
    st.builds(FileNameSet, st.frozensets(names, max_size=4)),
    st.builds(Flag, st.sampled_from(("archived", "fork", "public")), st.booleans()),
    st.builds(Meta, names, patterns),
)
queries: st.SearchStrategy[Query] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda children: And(tuple(children))),
        st.lists(inner, max_size=4).map(lambda children: Or(tuple(children))),
        inner.map(Not),
        st.builds(Type, st.sampled_from(ResultKind), inner),
        st.builds(Boost, inner, st.floats(allow_nan=False, allow_infinity=False)),
    ),
    max_leaves=12,
)
plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=10,
)


def encoded(*plain: object) -> bytes:
    return msgspec.msgpack.encode((QUERY_VERSION, *plain))


def is_query_or_invalid(data: bytes) -> bool:
    """Anything but Invalid is raised."""
    try:
        query = decode_query(data)
    except Invalid:
        return True
    return decode_query(encode_query(query)) == query


@given(queries)
def test_a_tree_is_decoded_as_it_was_encoded(query: Query) -> None:
    assert decode_query(encode_query(query)) == query


@pytest.mark.parametrize("text", [text for text, _ in CONFORMANCE])
def test_what_the_parser_builds_is_decoded_as_it_was_encoded(text: str) -> None:
    query = parse(text).query
    assert decode_query(encode_query(query)) == query


@given(st.lists(names, max_size=6))
def test_equal_queries_have_equal_bytes(found: list[str]) -> None:
    assert encode_query(RepoSet(frozenset(found))) == encode_query(RepoSet(frozenset(reversed(found))))


# -- bounds ---------------------------------------------------------------------------------------------------------


def deepest() -> str:
    """The query that nests deepest: each group is a negated list with a type, an `or` and an `and`."""
    text = "-sym:x"
    for _ in range(NESTING_MAX):
        text = f"-(a b {text} or c type:repo)"
    return f"a b {text} or c type:repo"


@pytest.mark.parametrize(
    "text",
    [
        deepest(),
        " or ".join(["-sym:x"] * ATOMS_MAX),
        "x" * QUERY_CHARACTERS_MAX,
        "\U0001f980" * QUERY_CHARACTERS_MAX,
        r"\pN{19} " * 10,
    ],
    ids=["deep", "wide", "long", "wide characters", "expensive"],
)
def test_every_query_that_the_parser_accepts_is_within_the_bounds(text: str) -> None:
    query = parse(text).query
    assert decode_query(encode_query(query)) == query


def chain(levels: int) -> bytes:
    """Not(Not(… TRUE))."""
    return b"\x92\x01" + b"\x92\xa3not" * (levels - 1) + b"\x92\xa5const\xc3"


def test_depth_is_bounded() -> None:
    assert isinstance(decode_query(chain(DEPTH_MAX)), Not)
    for levels in (DEPTH_MAX + 1, 500, 20_000):
        with pytest.raises(Invalid, match=r"nested more than|maximum recursion depth"):
            decode_query(chain(levels))


def test_nodes_are_bounded() -> None:
    assert isinstance(decode_query(encoded(("and", *[("const", True)] * (NODES_MAX - 1)))), And)
    with pytest.raises(Invalid, match=f"more than {NODES_MAX} nodes"):
        decode_query(encoded(("and", *[("const", True)] * NODES_MAX)))


def test_bytes_are_bounded_on_both_sides() -> None:
    text = Substring("x" * QUERY_BYTES_MAX)
    with pytest.raises(Invalid, match="query too large"):
        encode_query(text)
    with pytest.raises(Invalid, match=f"limit {QUERY_BYTES_MAX}"):
        decode_query(encoded(("text", text.text, True, "any")))


def test_the_work_of_compiling_regexes_is_bounded() -> None:
    with pytest.raises(Invalid, match="too large together"):
        decode_query(encoded(("or", *[("regex", r"\pN{200}", True, "any")] * 2)))


def test_a_tree_too_deep_to_encode_is_invalid() -> None:
    query: Query = TRUE
    for _ in range(100_000):
        query = Not(query)
    with pytest.raises(Invalid, match="query too deep"):
        encode_query(query)


def test_half_of_a_surrogate_pair_is_invalid() -> None:
    with pytest.raises(Invalid, match="surrogate"):
        encode_query(Substring("\ud83e"))


# -- what is no query -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "truncated"),
        (b"\xc1", "invalid query"),
        (b"\xdd\xff\xff\xff\xff", "truncated"),
        (b"\xa1\xff", "utf-8"),
        (msgspec.msgpack.encode([]), "no version"),
        (msgspec.msgpack.encode({"version": 1}), "no version"),
        (msgspec.msgpack.encode([True, ["const", True]]), "no version"),
        (encoded(), "not one tree"),
        (encoded(("const", True), ("const", True)), "not one tree"),
        (encoded("needle"), "malformed node of type str"),
        (encoded(()), "malformed node of type list"),
        (encoded((7, "needle")), "malformed node of type list"),
        (encoded(("near", "x")), "malformed node 'near'"),
        (encoded(("text", "x", True)), "malformed node 'text'"),
        (encoded(("text", "x", 1, "any")), "malformed node 'text'"),
        (encoded(("text", "x", True, "everywhere")), "malformed node 'text'"),
        (encoded(("regex", b"x", True, "any")), "malformed node 'regex'"),
        (encoded(("sym", ("const", True))), "malformed node 'sym'"),
        (encoded(("type", "branch", ("const", True))), "malformed node 'type'"),
        (encoded(("flag", "private", True)), "malformed node 'flag'"),
        (encoded(("boost", ("const", True), inf)), "malformed node 'boost'"),
        (encoded(("boost", ("const", True), nan)), "malformed node 'boost'"),
        (encoded(("repo-ids", [True])), "malformed node of type bool"),
        (encoded(("repos", [7])), "malformed node of type int"),
        (encoded(("branches-repos", ("main",))), "malformed node 'main'"),
        (encoded(("not", ("and", ("nor",)))), "malformed node 'nor'"),
    ],
)
def test_invalid_bytes_are_rejected_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        decode_query(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_query_or_invalid(data: bytes) -> None:
    assert is_query_or_invalid(data)


@given(plain_values)
def test_any_value_is_a_query_or_invalid(plain: object) -> None:
    assert is_query_or_invalid(encoded(plain))


@given(queries, st.data())
def test_a_damaged_query_is_a_query_or_invalid(query: Query, data: st.DataObject) -> None:
    body = bytearray(encode_query(query))
    at = data.draw(st.integers(0, len(body) - 1))
    damage: Callable[[], object] = data.draw(
        st.sampled_from([lambda: body.__setitem__(at, data.draw(st.integers(0, 255))), lambda: body.__delitem__(at)])
    )
    damage()
    assert is_query_or_invalid(bytes(body))


# -- versions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "outdated"), [(QUERY_VERSION + 1, "this node"), (QUERY_VERSION - 1, "the gateway")]
)
def test_another_version_is_rejected_by_both_numbers_whatever_follows(version: int, outdated: str) -> None:
    expected = f"unsupported query version {version}: this node reads version {QUERY_VERSION}; upgrade {outdated}"
    for rest in ([], [["const", True]], [{"tree": "of another form"}, 7]):
        with pytest.raises(UnsupportedQueryVersion) as raised:
            decode_query(msgspec.msgpack.encode([version, *rest]))
        assert str(raised.value) == expected


def test_the_version_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "QUERY_VERSION", 7)
    assert msgspec.msgpack.decode(encode_query(TRUE)) == [7, ["const", True]]
