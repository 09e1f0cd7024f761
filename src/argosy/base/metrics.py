"""Metrics: declared once, beside the code they measure; the values are in a `Metrics` object that is passed in.

A declaration at module level only names the metric, so several nodes in one process can run the same code, each with
values of its own. The metrics page of the docs is generated from the declarations.

A call that does not match the declaration (a missing or extra label, setting a counter) raises Invalid.

Hot paths look up one series once, with `adder`, `setter` or `observer`, and then change it directly. A series that was
removed must not be changed any more.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from argosy.base.errors import Invalid

if TYPE_CHECKING:
    from prometheus_client.metrics import MetricWrapperBase

Kind = Literal["counter", "gauge", "histogram"]

# Seconds: from a call in memory to one that runs into its deadline.
DEFAULT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NAME = re.compile(r"argosy_[a-z0-9_]+")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")
_LABELS_TAKEN = ("by", "le")  # `inc(by=)`, and the label that Prometheus gives to a bucket


@dataclass(frozen=True)
class Metric:
    """The declaration of a metric, without its values."""

    kind: Kind
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


# One for the process: declarations are names without values, so nodes in one process share them safely.
_catalogue: dict[str, Metric] = {}


def declared_metrics() -> list[Metric]:
    """Every metric declared by the modules imported so far, by name."""
    return [_catalogue[name] for name in sorted(_catalogue)]


def counter(name: str, help: str, labels: tuple[str, ...] = ()) -> Metric:
    """Declares a counter, which only grows; Prometheus exposes it as `<name>_total`."""
    assert not name.endswith("_total"), f"{name}: a counter is declared without _total, which is added when shown"
    return _declare(Metric("counter", name, help, labels))


def gauge(name: str, help: str, labels: tuple[str, ...] = ()) -> Metric:
    """Declares a gauge, which rises and falls."""
    return _declare(Metric("gauge", name, help, labels))


def histogram(
    name: str, help: str, buckets: tuple[float, ...] = DEFAULT_BUCKETS, labels: tuple[str, ...] = ()
) -> Metric:
    """Declares a histogram: how many values are at or below each of `buckets`."""
    assert buckets, f"{name}: a histogram needs buckets"
    assert list(buckets) == sorted(set(buckets)), f"{name}: buckets must rise; got {buckets}"
    return _declare(Metric("histogram", name, help, labels, buckets))


def _declare(metric: Metric) -> Metric:
    assert _NAME.fullmatch(metric.name), f"a metric's name is argosy_ and then a-z, 0-9, _; got {metric.name!r}"
    assert metric.help, f"{metric.name}: a metric needs a help text"
    for label in metric.labels:
        assert _LABEL.fullmatch(label), f"{metric.name}: a label's name is a-z, 0-9, _; got {label!r}"
        assert label not in _LABELS_TAKEN, f"{metric.name}: no label may be named {label!r}"
    known = _catalogue.setdefault(metric.name, metric)
    assert known == metric, f"{metric.name} is declared twice and differently: {known} and {metric}"
    return known


class Metrics:
    """The metrics of one node, in a Prometheus registry of its own."""

    def __init__(self) -> None:
        # Imported here, because the library takes over 100 ms to load and most commands measure nothing.
        from prometheus_client import CollectorRegistry

        # Of its own: the library's global registry belongs to the program that Argosy may be embedded in.
        self._registry = CollectorRegistry(auto_describe=False)
        self._families: dict[str, MetricWrapperBase] = {}
        self._children: dict[str, dict[tuple[str, ...], Any]] = {}

    def inc(self, metric: Metric, /, by: float = 1.0, **labels: object) -> None:
        """Adds to a counter or a gauge; a gauge may also be lowered."""
        if metric.kind == "histogram" or (metric.kind == "counter" and not by >= 0):
            raise Invalid(f"{metric.name} is a {metric.kind} and cannot be increased by {by}")
        self._child(metric, labels).inc(by)

    def set(self, metric: Metric, value: float, /, **labels: object) -> None:
        self.setter(metric, **labels)(value)

    def observe(self, metric: Metric, value: float, /, **labels: object) -> None:
        self.observer(metric, **labels)(value)

    def adder(self, metric: Metric, /, **labels: object) -> Callable[[float], None]:
        """Adds to this series, which is exposed from now on; the caller never lowers a counter."""
        if metric.kind == "histogram":
            raise Invalid(f"{metric.name} is a histogram and cannot be increased")
        add: Callable[[float], None] = self._child(metric, labels).inc
        return add

    def setter(self, metric: Metric, /, **labels: object) -> Callable[[float], None]:
        if metric.kind != "gauge":
            raise Invalid(f"{metric.name} is a {metric.kind}; only a gauge can be set")
        set_to: Callable[[float], None] = self._child(metric, labels).set
        return set_to

    def observer(self, metric: Metric, /, **labels: object) -> Callable[[float], None]:
        if metric.kind != "histogram":
            raise Invalid(f"{metric.name} is a {metric.kind}; only a histogram observes")
        observe: Callable[[float], None] = self._child(metric, labels).observe
        return observe

    def value(self, metric: Metric, /, **labels: object) -> float:
        """The current value, 0 if it was never changed; of a histogram, the number of observed values."""
        wanted = dict(zip(metric.labels, _values(metric, labels), strict=True))
        sample_name = metric.name + {"counter": "_total", "gauge": "", "histogram": "_count"}[metric.kind]
        family = self._families.get(metric.name)
        samples = (sample for part in family.collect() for sample in part.samples) if family else ()
        return next((s.value for s in samples if s.name == sample_name and s.labels == wanted), 0.0)

    def remove(self, metric: Metric, /, **labels: object) -> None:
        """Removes one series, such as that of a unit that was removed; idempotent."""
        values = _values(metric, labels)
        if self._children.get(metric.name, {}).pop(values, None) is None:
            return
        if metric.labels:
            self._families[metric.name].remove(*values)
        else:
            self._registry.unregister(self._families.pop(metric.name))

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format, to be served as `CONTENT_TYPE`."""
        from prometheus_client import generate_latest

        return generate_latest(_WithoutCreated(self._registry))

    def _child(self, metric: Metric, labels: dict[str, object]) -> Any:
        values = _values(metric, labels)
        # The lookup of the library takes a lock and builds a tuple of labels on each call; this one is a dict read.
        try:
            return self._children[metric.name][values]
        except KeyError:
            family = self._families.get(metric.name) or self._new_family(metric)
            child = family.labels(*values) if values else family
            return self._children.setdefault(metric.name, {}).setdefault(values, child)

    def _new_family(self, metric: Metric) -> "MetricWrapperBase":
        import prometheus_client as prometheus

        family: MetricWrapperBase
        match metric.kind:
            case "counter":
                family = prometheus.Counter(metric.name, metric.help, metric.labels, registry=None)
            case "gauge":
                family = prometheus.Gauge(metric.name, metric.help, metric.labels, registry=None)
            case "histogram":
                family = prometheus.Histogram(
                    metric.name, metric.help, metric.labels, registry=None, buckets=metric.buckets
                )
        # Two threads may both get here; `setdefault` lets one of them win, and only the winner is registered.
        winner = self._families.setdefault(metric.name, family)
        if winner is family:
            self._registry.register(family)
        return winner


class _WithoutCreated:
    """A registry without `_created` series, which double the output and are rarely used.

    The library's own switch for this is global to the process, which may belong to a host program.
    """

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def collect(self) -> Any:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if sample.name != f"{family.name}_created"]
            yield family


def _values(metric: Metric, labels: dict[str, object]) -> tuple[str, ...]:
    if len(labels) != len(metric.labels):
        raise _wrong_labels(metric, labels)
    try:
        return tuple([str(labels[name]) for name in metric.labels])
    except KeyError:
        raise _wrong_labels(metric, labels) from None


def _wrong_labels(metric: Metric, labels: dict[str, object]) -> Invalid:
    return Invalid(f"{metric.name} takes the labels {list(metric.labels)}; got {sorted(labels)}")
