"""Conditions of a WHERE clause that are pushed down: plain ones, and never more than the statement implies."""

import pytest

from argosy.jobs.sql.pushdown import NO_PUSHDOWN, Pushdown, extract_pushdown
from argosy.jobs.sql.tables import Value


@pytest.mark.parametrize(
    ("sql", "pushdown"),
    [
        ("SELECT * FROM jobs WHERE id = 'x'", Pushdown(id="x")),
        ("select id from jobs j where j.id='it''s' and 'acme' = tenant;", Pushdown(id="it's", tenant="acme")),
        ('SELECT * FROM "jobs" AS j WHERE "status_kind" = \'Failed\' ORDER BY id LIMIT 3', Pushdown(status="Failed")),
        ("SELECT count(*) FROM jobs WHERE id = $1 AND priority > 3 GROUP BY tenant", Pushdown(id="one")),
        ("SELECT * FROM jobs WHERE array_contains(element_at(metadata, 'k'), $2)", Pushdown(metadata=("k", "two"))),
        (
            "SELECT * FROM jobs WHERE starts_with(array_any_value(element_at(metadata,'k')),'p') -- AND id = 'x'",
            Pushdown(metadata_prefix=("k", "p")),
        ),
        ("SELECT * FROM jobs WHERE (priority = 1 OR id = 'x') AND tenant = 'acme'", NO_PUSHDOWN),
        ("SELECT * FROM jobs WHERE id = 'x' /* OR 1 */ AND jobs.tenant = 'acme'", Pushdown(id="x", tenant="acme")),
    ],
)
def test_a_plain_condition_is_pushed_down(sql: str, pushdown: Pushdown) -> None:
    assert extract_pushdown(sql, {"1": "one", "2": "two"}) == pushdown


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM jobs",
        "SELECT 1",
        "SELECT * FROM jobs WHERE id = 'x' OR priority = 1",
        "SELECT * FROM jobs WHERE NOT id = 'x'",
        "SELECT * FROM jobs WHERE id = 'x' COLLATE NOCASE",
        "SELECT * FROM jobs WHERE id = 'x' IS NULL",
        "SELECT * FROM jobs WHERE priority BETWEEN 1 AND id = 'x'",
        "SELECT * FROM jobs WHERE CASE WHEN 1 AND id = 'x' THEN 0 ELSE 1 END",
        "SELECT * FROM jobs, tasks WHERE id = 'x'",
        "SELECT * FROM jobs LEFT JOIN tasks ON id = job_id WHERE id = 'x'",
        "SELECT * FROM jobs WHERE id = 'x' UNION SELECT * FROM jobs",
        "SELECT * FROM (SELECT * FROM jobs) WHERE id = 'x'",
        "SELECT * FROM jobs WHERE id = $3",
        "SELECT * FROM jobs WHERE id = ?",
        "SELECT * FROM jobs WHERE id = 7",
        'SELECT * FROM jobs WHERE id = "x"',
        'SELECT * FROM jobs WHERE "id = ?"',
        "WITH j AS (SELECT * FROM jobs) SELECT * FROM j WHERE id = 'x'",
    ],
)
def test_other_conditions_are_not_pushed_down(sql: str) -> None:
    parameters: dict[str, Value] = {"3": 7}
    assert extract_pushdown(sql, parameters) == NO_PUSHDOWN
