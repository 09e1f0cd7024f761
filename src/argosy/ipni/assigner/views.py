"""The assigner's state as people and programs are shown it."""

from html import escape

from argosy.ipni.assigner.advice import Advice, advise
from argosy.ipni.assigner.pool_state import PoolState
from argosy.ownership.assigner import holders, required

PUBLISHERS_SHOWN_MAX = 100_000


def pool_rows(picture: PoolState) -> list[dict[str, object]]:
    """One row for each indexer, in the order of the configuration."""
    owed = picture.owed()
    doubles = picture.doubles()
    rows: list[dict[str, object]] = []
    for entry in picture.configuration.entries:
        url = entry.admin_url
        answer = picture.answer(url)
        rows.append(
            {
                "admin_url": url,
                "find_url": entry.find_url,
                "ingest_url": entry.ingest_url,
                "id": "" if answer is None else answer.id,
                "state": "twice" if url in doubles else _state(picture, url),
                "usage_percent": -1.0 if answer is None else answer.usage_percent,
                "assigned": 0 if answer is None else len(answer.assigned),
                "preferred": 0 if answer is None else len(answer.preferred),
                "presets": sorted(entry.presets),
                "owed": list(owed.get(url, ())),
                "problem": picture.problem(url),
            }
        )
    return rows


def assignment_rows(picture: PoolState, short: tuple[str, ...] = ()) -> list[dict[str, object]]:
    """One row for each publisher: who holds it, who only follows it for removals, and how many there should be."""
    pool = picture.pool()
    publishers = sorted(set(short).union(*(state.assigned for state in pool)))[:PUBLISHERS_SHOWN_MAX]
    rows: list[dict[str, object]] = []
    for publisher in publishers:
        holding = holders(publisher, pool, picture.policy)
        rows.append(
            {
                "publisher": publisher,
                "holders": list(holding),
                "frozen": [url for url in picture.audience(publisher) if url not in holding],
                "required": required(publisher, picture.policy, len(pool)),
                "is_short": picture.is_short(publisher),
            }
        )
    return rows


def page(picture: PoolState, short: tuple[str, ...] = ()) -> str:
    """The pool as one HTML page, without scripts."""
    columns = ("admin_url", "id", "state", "usage_percent", "assigned", "owed", "problem")
    head = "".join(f"<th>{_words(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(row[name])}</td>" for name in columns) + "</tr>" for row in pool_rows(picture)
    )
    advice = "".join(f"<li>{_line(each)}</li>" for each in advise(picture)) or "<li>nothing: all is well</li>"
    waiting = f"<p>{len(short)} announced publishers wait for an indexer.</p>" if short else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Assigner</title>'
        "<style>body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
        "td,th{border:1px solid #888;padding:.3em .6em;text-align:left}</style></head><body>"
        "<h1>Assigner</h1><table><caption>The pool</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{waiting}<h2>Advice</h2><ul>{advice}</ul></body></html>\n"
    )


def _state(picture: PoolState, url: str) -> str:
    answer = picture.answer(url)
    if answer is None:
        return "unknown"
    return "frozen" if answer.is_frozen else "active"


def _words(name: str) -> str:
    return escape(name.replace("_", " "))


def _cell(value: object) -> str:
    return escape(str(len(value)) if isinstance(value, list) else str(value))


def _line(advice: Advice) -> str:
    about = f"{escape(advice.indexer)}: " if advice.indexer else ""
    return f"<b>{escape(advice.kind)}</b> {about}{escape(advice.text)}"
