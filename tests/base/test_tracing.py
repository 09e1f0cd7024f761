"""Spans: no cost when off; recorded, nested and redacted when sent to OpenTelemetry."""

import asyncio
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from argosy.base.backends.otel import OtelTracer, otel_tracer
from argosy.base.errors import Invalid
from argosy.base.tracing import NO_TRACER


class Traced:
    """A tracer and its recorded spans by name."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OtelTracer(provider)

    def __getitem__(self, name: str) -> ReadableSpan:
        return next(span for span in self._exporter.get_finished_spans() if span.name == name)


@pytest.fixture
def spans_tracer():
    spans = Traced()
    yield spans
    spans.tracer.close()


def test_without_a_tracer_a_span_is_shared_and_stores_nothing() -> None:
    with NO_TRACER.span("search", repo="a") as outer, NO_TRACER.span("index") as inner:
        outer.set("hits", 3)
    assert outer is inner


def test_without_a_tracer_exceptions_still_rise() -> None:
    with pytest.raises(KeyError), NO_TRACER.span("search"):
        raise KeyError("x")


def test_a_span_has_its_name_and_attributes(spans_tracer: Traced) -> None:
    with spans_tracer.tracer.span("search", repo="a", limit=10) as span:
        span.set("hits", 3)
    assert dict(spans_tracer["search"].attributes) == {"repo": "a", "limit": 10, "hits": 3}
    assert spans_tracer["search"].status.status_code is StatusCode.UNSET


def test_a_span_within_a_span_is_its_child(spans_tracer: Traced) -> None:
    with spans_tracer.tracer.span("outer"), spans_tracer.tracer.span("inner"):
        pass
    assert spans_tracer["inner"].parent.span_id == spans_tracer["outer"].context.span_id


async def test_tasks_at_the_same_time_do_not_mix_up_their_spans(spans_tracer: Traced) -> None:
    async def work(name: str) -> None:
        with spans_tracer.tracer.span(name):
            await asyncio.sleep(0)
            with spans_tracer.tracer.span(f"{name} inner"):
                await asyncio.sleep(0)

    await asyncio.gather(work("a"), work("b"))
    for name in ("a", "b"):
        assert spans_tracer[f"{name} inner"].parent.span_id == spans_tracer[name].context.span_id


def test_an_exception_is_recorded_and_propagates(spans_tracer: Traced) -> None:
    with pytest.raises(ValueError, match="bad"), spans_tracer.tracer.span("search"):
        raise ValueError("bad redis://:hunter2@cache/0")
    span = spans_tracer["search"]
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "ValueError: bad redis://:***@cache/0"
    [event] = span.events
    assert event.attributes["exception.type"] == "ValueError"
    assert "redis://:***@cache/0" in event.attributes["exception.stacktrace"]
    assert "hunter2" not in span.to_json()


def test_secrets_do_not_reach_a_span(spans_tracer: Traced) -> None:
    with spans_tracer.tracer.span("fetch", url="https://x:hunter2@git/a") as span:
        span.set("api_token", "hunter2")
    assert dict(spans_tracer["fetch"].attributes) == {"url": "https://x:***@git/a", "api_token": "***"}


def test_a_tracer_for_a_collector_can_be_created_and_closed() -> None:
    tracer = otel_tracer("http://127.0.0.1:9/v1/traces", "argosy-test")
    assert isinstance(tracer, OtelTracer)
    tracer.close()


def test_an_endpoint_that_is_no_address_is_refused() -> None:
    with pytest.raises(Invalid, match="http:// or https://"):
        otel_tracer("collector:4318", "argosy")


def test_without_the_extra_the_error_names_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(Invalid, match="needs the package opentelemetry-sdk"):
        otel_tracer("http://collector:4318/v1/traces", "argosy")


def test_a_trace_continues_in_another_process(spans_tracer: Traced) -> None:
    with spans_tracer.tracer.span("here"):
        headers = spans_tracer.tracer.inject()
    with spans_tracer.tracer.extract(headers), spans_tracer.tracer.span("elsewhere"):
        pass
    with spans_tracer.tracer.extract({}), spans_tracer.tracer.span("alone"):
        pass
    assert spans_tracer["elsewhere"].parent.span_id == spans_tracer["here"].context.span_id
    assert spans_tracer["elsewhere"].context.trace_id == spans_tracer["here"].context.trace_id
    assert spans_tracer["alone"].parent is None


def test_an_invalid_trace_header_is_ignored(spans_tracer: Traced) -> None:
    with spans_tracer.tracer.extract({"traceparent": "00-zz-\x00-01"}), spans_tracer.tracer.span("alone"):
        pass
    assert spans_tracer["alone"].parent is None


def test_without_a_tracer_no_context_is_propagated() -> None:
    with NO_TRACER.extract({"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}), NO_TRACER.span("search"):
        assert NO_TRACER.inject() == {}
