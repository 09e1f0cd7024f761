"""Logs: one event per line, structured, and without secrets."""

import io
import json
import logging
import re
import sys

import pytest

from argosy.base import logs
from argosy.base.errors import Invalid


@pytest.fixture
def stream() -> io.StringIO:
    """Where the test's logs go."""
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_has_time_level_logger_event_and_fields(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    logs.get("ownership.keeper").info("lease lost", unit="repo:a", epoch=3)
    [line] = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("at"))
    assert line == {"level": "info", "logger": "ownership.keeper", "event": "lease lost", "unit": "repo:a", "epoch": 3}


def test_a_replacement_of_stderr_is_written_to(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar replaces it, so that lines appear above it."""
    logs.configure("info", "json")
    monkeypatch.setattr(sys, "stderr", stream)
    logs.get("app").info("node up")
    assert [line["event"] for line in lines(stream)] == ["node up"]


def test_a_text_line_is_for_people(stream: io.StringIO) -> None:
    logs.configure("info", "text", stream)
    logs.get("ownership.keeper").warning("lease lost", unit="repo:a", why="no answer", epoch=3, tags=["x"])
    line = stream.getvalue()
    assert line.endswith('Z warning ownership.keeper: lease lost unit=repo:a why="no answer" epoch=3 tags=["x"]\n')


def test_bound_fields_are_on_every_event_and_the_parent_logger_is_unchanged(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    log = logs.get("a")
    bound = log.bind(node="n1").bind(unit="u")
    bound.info("one", unit="v")
    log.info("two")
    one, two = lines(stream)
    assert (one["node"], one["unit"]) == ("n1", "v")
    assert "node" not in two


def test_events_below_the_level_are_not_written(stream: io.StringIO) -> None:
    logs.configure("warning", "json", stream)
    log = logs.get("a")
    for write in (log.debug, log.info, log.warning, log.error):
        write("happened")
    assert [line["level"] for line in lines(stream)] == ["warning", "error"]


def test_a_disabled_level_never_evaluates_its_fields(stream: io.StringIO) -> None:
    class RaisingRepr:
        def __repr__(self) -> str:
            raise AssertionError("was rendered")

    logs.configure("info", "json", stream)
    logs.get("a").debug("quiet", thing=RaisingRepr())
    assert stream.getvalue() == ""


@pytest.mark.parametrize("format", ["json", "text"])
def test_secrets_never_reach_the_log(stream: io.StringIO, format: logs.Format) -> None:
    logs.configure("info", format, stream)
    logs.get("a").bind(api_token="hunter2").error(
        "cannot reach redis://:hunter2@h",
        password="hunter2",
        url="redis://u:hunter2@cache/0",
        headers={"Authorization": "Bearer hunter2", "accept": "*/*"},
        urls=["https://hunter2@git/a"],
        nested={"deep": [{"credential": ["hunter2"]}]},
        odd=ValueError("https://a:hunter2@b"),
    )
    assert "hunter2" not in stream.getvalue()
    assert "redis://u:***@cache/0" in stream.getvalue()
    assert "*/*" in stream.getvalue()


@pytest.mark.parametrize("format", ["json", "text"])
def test_a_traceback_is_printed_and_redacted(stream: io.StringIO, format: logs.Format) -> None:
    logs.configure("info", format, stream)
    try:
        raise ValueError("no answer from redis://:hunter2@cache")
    except ValueError as error:
        logs.get("a").error("failed", exc_info=True)
        logs.get("a").error("failed", exc_info=error)
    text = stream.getvalue()
    assert text.count("ValueError: no answer from redis://:***@cache") == 2
    assert "hunter2" not in text
    if format == "json":
        assert all(line["traceback"].startswith("Traceback (most recent call last):\n") for line in lines(stream))


def test_values_json_cannot_represent_become_their_repr(stream: io.StringIO) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    logs.configure("info", "json", stream)
    logs.get("a").info("odd", raw=b"\x00", bad=float("nan"), thing=Broken(), pair=(1, {2}), none=None, keys={1: True})
    [line] = lines(stream)
    assert (line["raw"], line["bad"], line["thing"]) == ("b'\\x00'", "nan", "<Broken without a repr>")
    assert (line["pair"], line["none"], line["keys"]) == ([1, [2]], None, {"1": True})


def test_a_recursive_structure_terminates(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    loop: list = []
    loop.append(loop)
    logs.get("a").info("round", loop=loop)
    assert "[...]" in stream.getvalue()


def test_a_field_cannot_displace_what_every_line_has(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    logs.get("a").info("happened", level=9, event="mine", at="noon")
    [line] = lines(stream)
    assert (line["level"], line["event"]) == ("info", "happened")
    assert (line["level_"], line["event_"], line["at_"]) == (9, "mine", "noon")


@pytest.mark.parametrize("format", ["json", "text"])
def test_an_event_is_one_line_whatever_it_holds(stream: io.StringIO, format: logs.Format) -> None:
    logs.configure("info", format, stream)
    logs.get("a").info("100% of\nlines", text="two\nlines\r\u2028\x1b[2J\x9b", empty="", **{"a\nb": 1})
    logs.get("a").info("plain", name="ünï", half="\ud800")
    assert len(stream.getvalue().splitlines()) == 2
    stream.getvalue().encode()


def test_text_in_any_script_is_written_as_it_is(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    logs.get("a").info("found", name="ünï 海")
    assert "ünï 海" in stream.getvalue()


def test_configuring_again_replaces_the_first(stream: io.StringIO) -> None:
    second = io.StringIO()
    logs.configure("info", "json", stream)
    logs.configure("info", "json", second)
    logs.get("a").info("once")
    assert (stream.getvalue(), len(lines(second))) == ("", 1)


def test_other_libraries_warnings_take_the_same_form(stream: io.StringIO) -> None:
    logs.configure("debug", "json", stream)
    logging.getLogger("elsewhere").warning("trouble at %s", "redis://:hunter2@h")
    logging.getLogger("elsewhere").info("chatter")
    [line] = lines(stream)
    assert (line["logger"], line["event"]) == ("elsewhere", "trouble at redis://:***@h")


def test_a_host_formatter_gets_the_fields_and_no_secrets(caplog) -> None:
    with caplog.at_level("INFO", logger="argosy"):
        logs.get("a").info("lease lost", unit="u", password="hunter2")
    [record] = caplog.records
    assert record.getMessage() == "lease lost unit=u password=***"
    assert record.funcName == "test_a_host_formatter_gets_the_fields_and_no_secrets"


def test_a_level_or_format_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Invalid, match="debug, info, warning, error; got 'loud'"):
        logs.configure("loud")
    with pytest.raises(Invalid, match="json or text; got 'xml'"):
        logs.configure(format="xml")  # type: ignore[arg-type]
