"""Advice and pages: what an operator sees of a pool."""

from argosy.ipni.assigner.advice import Advice, advise
from argosy.ipni.assigner.configuration import Configuration, PoolEntry
from argosy.ipni.assigner.http import assignment_rows, pool_rows, render_page
from argosy.ipni.assigner.pool_state import IndexerReport, PoolState


def pool_state(replication: int = 1, presets: tuple[str, ...] = (), **answers: IndexerReport | None) -> PoolState:
    """The keyword names the indexer of each answer; the presets are those of the first one."""
    entries = [PoolEntry(name, f"{name}-find", f"{name}-ingest") for name in answers]
    entries[0] = PoolEntry(entries[0].admin_url, entries[0].find_url, entries[0].ingest_url, frozenset(presets))
    pool = PoolState(Configuration(tuple(entries), replication=replication))
    for name, answer in answers.items():
        if answer is None:
            pool.on_poll_failure(name, "connection refused")
        else:
            pool.on_report(name, answer, pool.change_count(name))
    return pool


def publishers(count: int) -> dict[str, str]:
    return {f"p{n}": "" for n in range(count)}


def kinds(found: list[Advice]) -> list[tuple[str, str]]:
    return [(advice.kind, advice.indexer) for advice in found]


def test_a_healthy_pool_gets_no_advice() -> None:
    assert advise(pool_state(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("B"))) == []


def test_an_indexer_that_does_not_answer_is_named_with_the_reason() -> None:
    found = advise(pool_state(a=IndexerReport("A"), b=IndexerReport("B"), c=None))
    assert kinds(found) == [("silent", "c")]
    assert "connection refused" in found[0].text


def test_a_frozen_indexer_without_a_successor_needs_another_indexer() -> None:
    frozen = IndexerReport("A", is_frozen=True, assigned={"p": "", "q": ""})
    found = advise(pool_state(a=frozen, b=IndexerReport("B"), c=IndexerReport("C"), presets=("p",)))
    assert kinds(found) == [("stuck", "a")]
    assert found[0].publishers == ("p",)


def test_a_frozen_indexer_with_all_handoffs_done_may_be_removed() -> None:
    frozen = IndexerReport("A", is_frozen=True, assigned={"p": ""})
    found = advise(pool_state(a=frozen, b=IndexerReport("B", assigned={"p": "A"}), c=IndexerReport("C")))
    assert kinds(found) == [("done", "a")]


def test_too_few_active_indexers_leave_no_handoff_target() -> None:
    assert kinds(advise(pool_state(replication=2, a=IndexerReport("A"), b=IndexerReport("B")))) == [("no room", "")]
    assert (
        kinds(advise(pool_state(replication=2, a=IndexerReport("A"), b=IndexerReport("B"), c=IndexerReport("C")))) == []
    )


def test_a_nearly_full_indexer_is_named() -> None:
    found = advise(pool_state(a=IndexerReport("A", usage_percent=80.0), b=IndexerReport("B", usage_percent=79.9)))
    assert kinds(found) == [("full", "a")]


def test_an_overloaded_indexer_is_named_with_the_mean() -> None:
    found = advise(
        pool_state(a=IndexerReport("A", assigned=publishers(31)), b=IndexerReport("B"), c=IndexerReport("C"))
    )
    assert kinds(found) == [("overloaded", "a")]
    assert "31 publishers and the mean is 10" in found[0].text
    assert (
        advise(pool_state(a=IndexerReport("A", assigned=publishers(9)), b=IndexerReport("B"), c=IndexerReport("C")))
        == []
    )


def test_an_over_assigned_publisher_is_removed_from_the_busiest_indexer() -> None:
    found = advise(
        pool_state(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("B", assigned={"p": "A", "q": ""}))
    )
    assert [(advice.kind, advice.indexer, advice.publishers) for advice in found] == [("too many", "b", ("p",))]


def test_one_indexer_at_two_urls_is_named() -> None:
    assert kinds(advise(pool_state(a=IndexerReport("A"), b=IndexerReport("A"), c=IndexerReport("C")))) == [
        ("twice", "b")
    ]


def test_the_rows_show_states_and_counts() -> None:
    frozen = IndexerReport("A", is_frozen=True, usage_percent=91.0, assigned={"p": "", "q": ""})
    pool = pool_state(a=frozen, b=IndexerReport("B", assigned={"p": "A"}, preferred=frozenset({"z"})), c=None)
    rows = pool_rows(pool)
    assert [(row["state"], row["assigned"], row["preferred"]) for row in rows] == [
        ("frozen", 2, 0),
        ("active", 1, 1),
        ("unknown", 0, 0),
    ]
    assert (rows[0]["owed"], rows[2]["problem"]) == (["q"], "connection refused")
    assert assignment_rows(pool, ("new",)) == [
        {"publisher": "new", "holders": [], "frozen": [], "required": 1, "is_short": True},
        {"publisher": "p", "holders": ["b"], "frozen": ["a"], "required": 1, "is_short": False},
        {"publisher": "q", "holders": [], "frozen": ["a"], "required": 1, "is_short": True},
    ]


def test_the_page_shows_the_pool_and_escapes_foreign_text() -> None:
    shown = render_page(pool_state(a=IndexerReport("<script>alert(1)</script>"), b=None), ("p",))
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "connection refused" in shown
    assert "1 announced publishers wait" in shown
    assert "<li>none</li>" in render_page(pool_state(a=IndexerReport("A"), b=IndexerReport("B")))
