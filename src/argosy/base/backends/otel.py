"""The tracer that sends spans to an OpenTelemetry collector.

Its packages are the optional extra `tracing` and slow to load, so they are imported when a tracer is created.
Attributes, and the messages and tracebacks of exceptions, are redacted as in logs.
"""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from argosy.base.errors import Invalid
from argosy.base.extras import missing_package
from argosy.base.redact import MASK, is_secret_name, redact
from argosy.base.tracing import Attribute, Span

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider


class OtelTracer:
    """Spans made by an OpenTelemetry provider; `close` sends those that are still waiting."""

    def __init__(self, provider: "TracerProvider") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("argosy")
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, /, **attributes: Attribute) -> Iterator[Span]:
        shown = {key: _redact_attribute(key, value) for key, value in attributes.items()}
        # The SDK would record exceptions itself, but without redaction.
        with self._tracer.start_as_current_span(
            name, attributes=shown, record_exception=False, set_status_on_exception=False
        ) as inner:
            try:
                yield _OtelSpan(inner)
            # Not BaseException: a cancellation is no error of the span.
            except Exception as error:
                _record(inner, error)
                raise

    def inject(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        self._propagator.inject(headers)
        return headers

    @contextmanager
    def extract(self, headers: Mapping[str, str]) -> Iterator[None]:
        from opentelemetry import context

        token = context.attach(self._propagator.extract(headers, context.get_current()))
        try:
            yield
        finally:
            context.detach(token)

    def close(self) -> None:
        self._provider.shutdown()


class _OtelSpan:
    def __init__(self, inner: "trace.Span") -> None:
        self._inner = inner

    def set(self, key: str, value: Attribute) -> None:
        self._inner.set_attribute(key, _redact_attribute(key, value))


def otel_tracer(endpoint: str, service_name: str) -> OtelTracer:
    """A tracer that sends to the OTLP/HTTP collector at `endpoint`, such as http://collector:4318/v1/traces."""
    if not endpoint.startswith(("http://", "https://")):
        raise Invalid(f"a trace collector is an http:// or https:// address; got {redact(endpoint)!r}")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise missing_package(error, extra="tracing", purpose="tracing") from error
    provider = TracerProvider(resource=Resource.create({"service.name": service_name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return OtelTracer(provider)


def _redact_attribute(key: str, value: Attribute) -> Attribute:
    if is_secret_name(key):
        return MASK
    return redact(value) if isinstance(value, str) else value


def _record(span: "trace.Span", error: Exception) -> None:
    from opentelemetry.trace import Status, StatusCode

    message = redact(str(error))
    stack = redact("".join(traceback.format_exception(error)))
    span.record_exception(error, {"exception.message": message, "exception.stacktrace": stack})
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {message}"))
