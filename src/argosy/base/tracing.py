"""Tracing: how long each part of a request takes, if the operator has configured a collector.

Code that is worth a span takes a `Tracer` as a constructor argument. Without a collector that is `NO_TRACER`, which
records nothing and has one shared span, so that the code need not check whether tracing is on. An exception that leaves
a span is recorded on it and propagates.

A trace continues in another process, or in a task that was started elsewhere, through the headers of the W3C trace
context: `inject` writes them and `extract` reads them.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Protocol, TypeAlias

Attribute: TypeAlias = str | bool | int | float


class Span(Protocol):
    """One piece of work in progress."""

    def set(self, key: str, value: Attribute) -> None: ...


class Tracer(Protocol):
    """Opens spans; a span opened within another is its child, across awaits too."""

    def span(self, name: str, /, **attributes: Attribute) -> AbstractContextManager[Span]: ...

    def inject(self) -> dict[str, str]:
        """The headers that carry the current span; empty outside of spans."""
        ...

    def extract(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """A context in which spans are children of the span in the headers; without such headers it has no effect."""
        ...


class _NoSpan:
    __slots__ = ()

    def set(self, key: str, value: Attribute) -> None:
        pass

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


_NO_SPAN = _NoSpan()


class _NoTracer:
    __slots__ = ()

    def span(self, name: str, /, **attributes: Attribute) -> AbstractContextManager[Span]:
        return _NO_SPAN

    def inject(self) -> dict[str, str]:
        return {}

    def extract(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        return nullcontext()


NO_TRACER: Tracer = _NoTracer()
