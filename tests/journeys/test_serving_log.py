"""The parser and checkers of serving logs detect the violations they exist for."""

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.journeys.fleet import Answer, stale_answers
from tests.journeys.serving_log import intervals, overlaps

START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def write(folder: Path, node: str, *lines: str) -> Path:
    path = folder / f"{node}.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def line(
    second: float, event: str, *, for_s: float | None = None, written_after_s: float = 0.0, **fields: object
) -> str:
    if for_s is not None:
        fields["until"] = START + second + for_s
    second += written_after_s
    return json.dumps({"at": f"2026-01-01T00:00:{second:06.3f}Z", "event": event, **fields})


def test_two_nodes_serving_at_one_instant_are_reported(tmp_path: Path) -> None:
    first = write(
        tmp_path, "a", line(1, "serving started", unit="u", epoch=1, for_s=3), line(3, "serving extended", for_s=3)
    )
    second = write(tmp_path, "b", line(5, "serving started", unit="u", epoch=2, for_s=3))
    ((unit, earlier, later),) = overlaps(intervals([first, second]))
    assert (unit, earlier.node, later.node) == ("u", "a", "b")


def test_an_expired_or_stopped_interval_frees_the_unit(tmp_path: Path) -> None:
    silent = write(tmp_path, "a", line(1, "serving started", unit="u", epoch=1, for_s=3))
    stop = line(6, "serving stopped", unit="u", epoch=2)
    stopped = write(tmp_path, "b", line(4.5, "serving started", unit="u", epoch=2, for_s=9), stop)
    last = write(tmp_path, "c", line(6.5, "serving started", unit="u", epoch=3, for_s=3))
    spans = intervals([silent, stopped, last])
    assert len(spans["u"]) == 3
    assert overlaps(spans) == []


def test_a_line_written_late_by_a_stopped_process_does_not_extend_its_interval(tmp_path: Path) -> None:
    late = line(3, "serving extended", for_s=3, written_after_s=5)  # stopped at 3, continued at 8
    stopped = write(
        tmp_path,
        "a",
        line(1, "serving started", unit="u", epoch=1, for_s=3),
        late,
        line(8.1, "serving stopped", unit="u"),
    )
    successor = write(tmp_path, "b", line(6.5, "serving started", unit="u", epoch=2, for_s=3))
    assert overlaps(intervals([stopped, successor])) == []


def test_a_response_with_an_old_epoch_is_reported_unless_requested_before_the_new_one() -> None:
    new = Answer("u", "b", 2, sent_at=1.0, received_at=2.0)
    overtaken = Answer("u", "a", 1, sent_at=1.5, received_at=3.0)
    stale = Answer("u", "a", 1, sent_at=2.5, received_at=2.6)
    assert stale_answers([new, overtaken]) == []
    assert stale_answers([new, overtaken, stale]) == [stale]
