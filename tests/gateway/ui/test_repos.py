"""The table of repositories."""

import pytest

from argosy.base.errors import Invalid
from argosy.gateway.ports import FleetStatus, RepoState, RepoView, SlotHolder
from argosy.gateway.ui.repos import ROWS_MAX, SORTS, table
from argosy.search.fleet.model import Phase, RepoSpec, RepoStatus
from argosy.search.model import Branch

NOW = 1_000_000.0


def view(name: str, state: RepoState = RepoState.READY, *, memory: int = 0, reason: str = "") -> RepoView:
    status = RepoStatus(name, Phase.READY, memory_bytes=memory, documents=memory // 10, indexed_at=NOW - memory)
    return RepoView(name, state, RepoSpec(name, f"https://host.example/{name}"), status=status, reason=reason)


FLEET = FleetStatus(NOW, repositories=(view("b/two", memory=20), view("A/one", memory=30), view("c", RepoState.FAILED)))


def names(**params: object) -> list[str]:
    return [row.name for row in table(FLEET, **params).rows]  # type: ignore[arg-type]


def test_rows_are_sorted_by_the_requested_key() -> None:
    assert names() == ["A/one", "b/two", "c"]
    assert names(sort="memory", is_descending=True) == ["A/one", "b/two", "c"]
    assert names(sort="state") == ["c", "A/one", "b/two"]
    assert names(sort="indexed") == ["A/one", "b/two", "c"]
    assert {len(names(sort=each)) for each in SORTS} == {3}


def test_rows_are_chosen_by_words_and_state_and_all_states_are_counted() -> None:
    assert names(words="O") == ["A/one", "b/two"]
    assert names(words="/ one") == ["A/one"]
    assert names(state="failed") == ["c"]
    assert table(FLEET, state="failed").states == (("ready", 2), ("failed", 1))


def test_an_unknown_order_is_rejected() -> None:
    with pytest.raises(Invalid, match="invalid sort key 'colour'; use one of name,"):
        table(FLEET, sort="colour")


def test_a_row_has_all_known_fields() -> None:
    status = RepoStatus(
        "r", Phase.INDEXING, progress=0.25, branches=(Branch("main", "f" * 40),), memory_bytes=2048, documents=1200
    )
    seats = (
        SlotHolder("n1", "a", 0, 3, "warming"),
        SlotHolder("n2", "b", 1, 1, "ready"),
        SlotHolder("n3", "c", -1, 1, "warming"),
    )
    spec = RepoSpec("r", "https://user:hidden@host.example/r", is_pinned=True, last_indexed_at=int((NOW - 60) * 1000))
    [row] = table(FleetStatus(NOW, repositories=(RepoView("r", RepoState.WARMING, spec, seats, status),))).rows
    assert (row.phase, row.progress, row.memory, row.documents) == ("indexing", 0.25, "2.0 KiB", "1,200")
    assert (row.indexed, row.version, row.is_pinned) == ("1 min ago", "f" * 10, True)
    assert row.holders == ("n1", "n2 (replica 1)", "n3 (successor)")
    assert "hidden" not in row.origin


def test_a_failure_has_its_reason_without_secrets() -> None:
    failed = RepoView("r", RepoState.FAILED, RepoSpec("r", "x"), reason="https://user:hidden@host refused")
    [row] = table(FleetStatus(NOW, repositories=(failed,))).rows
    assert row.reason.endswith("refused")
    assert "hidden" not in row.reason


def test_a_table_is_bounded_and_reports_what_it_omits() -> None:
    found = table(FleetStatus(NOW, repositories=tuple(view(f"r{number:05}") for number in range(ROWS_MAX + 5))))
    assert len(found.rows) == ROWS_MAX
    assert found.found == ROWS_MAX + 5
