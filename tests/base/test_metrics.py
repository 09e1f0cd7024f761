"""Metrics: declared once, counted per node, shown as Prometheus expects."""

import subprocess
import sys

import pytest

from argosy.base import metrics
from argosy.base.errors import Invalid
from argosy.base.metrics import Metrics, counter, declared_metrics, gauge, histogram

STARTED = counter("argosy_test_auctions_started", "auctions started", labels=("space",))
PLAIN = counter("argosy_test_plain", "no labels")
FREE = gauge("argosy_test_free_bytes", "memory not in use", labels=("node", "kind"))
TOOK = histogram("argosy_test_took_seconds", "how long it took", buckets=(0.1, 1.0), labels=("op",))


def test_a_counter_counts_each_set_of_labels_apart() -> None:
    figures = Metrics()
    figures.inc(STARTED, space="a")
    figures.inc(STARTED, by=2, space="a")
    figures.inc(STARTED, space="b")
    assert figures.value(STARTED, space="a") == 3
    assert figures.value(STARTED, space="b") == 1


def test_increasing_by_zero_creates_the_series() -> None:
    figures = Metrics()
    figures.inc(PLAIN, by=0)
    assert b"argosy_test_plain_total 0.0" in figures.exposition()


def test_a_stored_series_counts_like_one_looked_up_each_time() -> None:
    figures = Metrics()
    add, set_to, observe = figures.adder(STARTED, space="a"), figures.setter(FREE, node="n", kind="k"), figures.observer
    assert b'argosy_test_auctions_started_total{space="a"} 0.0' in figures.exposition()
    add(2)
    figures.inc(STARTED, space="a")
    set_to(7)
    observe(TOOK, op="get")(0.5)
    assert figures.value(STARTED, space="a") == 3
    assert figures.value(FREE, node="n", kind="k") == 7
    assert figures.value(TOOK, op="get") == 1


def test_a_series_has_only_the_methods_of_its_type() -> None:
    figures = Metrics()
    with pytest.raises(Invalid, match="cannot be increased"):
        figures.adder(TOOK, op="get")
    with pytest.raises(Invalid, match="only a gauge can be set"):
        figures.setter(STARTED, space="a")
    with pytest.raises(Invalid, match="only a histogram observes"):
        figures.observer(FREE, node="n", kind="k")
    with pytest.raises(Invalid, match="takes the labels"):
        figures.adder(STARTED)


def test_two_nodes_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.inc(PLAIN)
    assert (one.value(PLAIN), other.value(PLAIN)) == (1, 0)


def test_a_gauge_is_set_and_moved_both_ways() -> None:
    figures = Metrics()
    figures.set(FREE, 10, node="n1", kind="heap")
    figures.inc(FREE, by=-4, node="n1", kind="heap")
    assert figures.value(FREE, kind="heap", node="n1") == 6


def test_a_histogram_counts_what_it_observes() -> None:
    figures = Metrics()
    for seconds in (0.05, 0.5, 5.0):
        figures.observe(TOOK, seconds, op="get")
    assert figures.value(TOOK, op="get") == 3
    lines = figures.exposition().decode().splitlines()
    assert 'argosy_test_took_seconds_bucket{le="0.1",op="get"} 1.0' in lines
    assert 'argosy_test_took_seconds_bucket{le="+Inf",op="get"} 3.0' in lines


def test_an_untouched_series_is_zero_and_not_exposed() -> None:
    figures = Metrics()
    assert figures.value(STARTED, space="nowhere") == 0
    figures.inc(STARTED, space="a")
    assert figures.value(STARTED, space="nowhere") == 0
    assert b"nowhere" not in figures.exposition()


def test_the_exposition_is_prometheus_text_without_created_series() -> None:
    figures = Metrics()
    figures.inc(STARTED, space="a")
    figures.observe(TOOK, 0.5, op="get")
    text = figures.exposition().decode()
    assert "# HELP argosy_test_auctions_started_total auctions started" in text
    assert "# TYPE argosy_test_auctions_started_total counter" in text
    assert 'argosy_test_auctions_started_total{space="a"} 1.0' in text
    assert "_created" not in text
    assert metrics.CONTENT_TYPE.startswith("text/plain; version=0.0.4")


def test_a_removed_series_disappears_and_restarts_at_zero() -> None:
    figures = Metrics()
    figures.inc(STARTED, space="a")
    figures.inc(STARTED, space="b")
    figures.inc(PLAIN)
    for _ in range(2):
        figures.remove(STARTED, space="a")
        figures.remove(PLAIN)
    text = figures.exposition()
    assert b'space="a"' not in text
    assert b'space="b"' in text
    assert b"argosy_test_plain" not in text
    figures.inc(STARTED, space="a")
    figures.inc(PLAIN)
    assert (figures.value(STARTED, space="a"), figures.value(PLAIN)) == (1, 1)


@pytest.mark.parametrize("labels", [{}, {"spase": "a"}, {"space": "a", "more": "b"}])
def test_labels_that_were_not_declared_are_refused(labels: dict) -> None:
    figures = Metrics()
    for call in (figures.inc, figures.value, figures.remove):
        with pytest.raises(Invalid, match=r"takes the labels \['space'\]"):
            call(STARTED, **labels)


def test_label_values_are_shown_as_text() -> None:
    figures = Metrics()
    figures.inc(STARTED, space=1)
    figures.inc(STARTED, space=True)
    assert figures.value(STARTED, space="1") == 1
    assert figures.value(STARTED, space="True") == 1


def test_a_metric_is_used_only_as_its_kind_allows() -> None:
    figures = Metrics()
    with pytest.raises(Invalid, match="only a gauge"):
        figures.set(PLAIN, 1)
    with pytest.raises(Invalid, match="only a histogram"):
        figures.observe(PLAIN, 1)
    with pytest.raises(Invalid, match="cannot be increased"):
        figures.inc(TOOK, op="get")
    with pytest.raises(Invalid, match="cannot be increased by -1"):
        figures.inc(PLAIN, by=-1)
    assert figures.exposition() == b""


def test_the_catalogue_lists_what_was_declared_by_name() -> None:
    names = [metric.name for metric in declared_metrics()]
    assert names == sorted(names)
    assert STARTED in declared_metrics()
    assert TOOK.buckets == (0.1, 1.0)


def test_the_same_declaration_twice_is_one_metric() -> None:
    assert counter("argosy_test_plain", "no labels") is PLAIN


def test_a_different_declaration_of_a_name_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="declared twice"):
        gauge("argosy_test_plain", "no labels")
    assert PLAIN in declared_metrics()


@pytest.mark.parametrize(
    "declare",
    [
        lambda: counter("requests", "no prefix"),
        lambda: counter("argosy_Requests", "upper case"),
        lambda: counter("argosy_requests_total", "the suffix is added when shown"),
        lambda: counter("argosy_requests", ""),
        lambda: counter("argosy_requests", "a label that is an argument", labels=("by",)),
        lambda: counter("argosy_requests", "a label that is no name", labels=("a-b",)),
        lambda: histogram("argosy_requests", "no buckets", buckets=()),
        lambda: histogram("argosy_requests", "buckets that fall", buckets=(2.0, 1.0)),
    ],
)
def test_a_declaration_against_the_rules_is_a_bug(declare) -> None:
    with pytest.raises(AssertionError):
        declare()
    assert "argosy_requests" not in [metric.name for metric in declared_metrics()]


def test_declaring_metrics_does_not_load_the_prometheus_library() -> None:
    program = (
        "import sys; from argosy.base.metrics import counter; counter('argosy_x', 'x'); "
        "sys.exit('prometheus_client' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
