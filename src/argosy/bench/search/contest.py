"""Everybody is asked every question in turn, several rounds, and what it cost is kept.

Turns change with every question, so that a machine that is busy for a moment is busy for all. CPU is measured with one
thread each, wall time with as many as there are cores. An answer that took seconds is not waited for again: what a
moment more or less would change is small beside it, and a round over a gigabyte takes half an hour as it is.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from argosy.base.errors import ArgosyError
from argosy.bench.search.bench_query import Ask, Form, Kind
from argosy.bench.search.programs import Spent

Measure: TypeAlias = Literal["cpu", "wall"]
MEASURES: tuple[Measure, ...] = ("cpu", "wall")
OURS = "argosy"
LONG_MS = 1_000.0  # of wall time; who takes longer is asked once, and that counts for every round


class Contender(Protocol):
    """Whoever can be asked."""

    @property
    def is_threaded(self) -> bool: ...

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent: ...


@dataclass
class Contest:
    """The milliseconds of every contender, form, question and round."""

    asks: Mapping[Kind, Sequence[Ask]]
    cores: int
    samples: dict[tuple[str, Form, Measure, Ask], list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _failed: set[tuple[str, Form, Ask]] = field(default_factory=set)

    def round(self, form: Form, contenders: Mapping[str, Contender], say: Callable[[str], None]) -> None:
        for kind, asks in self.asks.items():
            for ask in asks:
                say(f"{form} {kind}: {ask.text}")
                for name, contender in contenders.items():
                    if (name, form, ask) not in self._failed:
                        self._keep(name, form, ask, contender)

    def _keep(self, name: str, form: Form, ask: Ask, contender: Contender) -> None:
        told = [self.samples.get((name, form, measure, ask), []) for measure in MEASURES]
        if all(told) and told[-1][0] > LONG_MS:
            for values in told:
                values.append(values[0])
            return
        try:
            alone = contender.ask(ask, form, 1)
            # Those that have one thread only are not asked twice for the same.
            together = contender.ask(ask, form, self.cores) if contender.is_threaded and self.cores > 1 else alone
        except ArgosyError as error:
            self._leave_out(name, form, ask, error)
            return
        for measure, value_s in zip(MEASURES, (alone.cpu_s, together.wall_s), strict=True):
            self.samples.setdefault((name, form, measure, ask), []).append(value_s * 1e3)

    def _leave_out(self, name: str, form: Form, ask: Ask, error: ArgosyError) -> None:
        """A question that one of them cannot answer is not asked again; rounds of it would not be comparable."""
        self._failed.add((name, form, ask))
        self.failures.append(f"{name} could not answer {ask.text} in form {form}: {error}")
        for measure in MEASURES:
            self.samples.pop((name, form, measure, ask), None)

    def per_ask(self, name: str, form: Form, measure: Measure, kind: Kind) -> dict[Ask, float]:
        """Each question's median over the rounds."""
        keys = {ask: (name, form, measure, ask) for ask in self.asks[kind]}
        return {ask: statistics.median(self.samples[key]) for ask, key in keys.items() if key in self.samples}

    def per_round(self, name: str, form: Form, measure: Measure, kind: Kind) -> list[float]:
        """Each round's median over the questions of the class."""
        rounds = [self.samples[key] for ask in self.asks[kind] if (key := (name, form, measure, ask)) in self.samples]
        return [statistics.median(values) for values in zip(*rounds, strict=True)]

    def times(self, name: str, form: Form, measure: Measure, kind: Kind) -> float | None:
        """How many times more than ours the median question costs them; None if they were not asked."""
        ours, theirs = (self.per_ask(each, form, measure, kind) for each in (OURS, name))
        both = [ask for ask in ours if ask in theirs]
        if not both:
            return None
        return statistics.median(theirs[ask] for ask in both) / statistics.median(ours[ask] for ask in both)

    def least_times(self, name: str, form: Form, measure: Measure) -> tuple[float, Ask] | None:
        """The question on which they come closest to us, or pass us."""
        found = [
            (theirs[ask] / ours, ask)
            for kind in self.asks
            for theirs in [self.per_ask(name, form, measure, kind)]
            for ask, ours in self.per_ask(OURS, form, measure, kind).items()
            if ask in theirs
        ]
        return min(found, key=lambda each: each[0], default=None)

    def raw(self) -> list[dict[str, Any]]:
        """Everything, for machines: a record for each question and form."""
        records: dict[tuple[Ask, Form], dict[str, Any]] = {}
        for (name, form, measure, ask), values in self.samples.items():
            record = records.setdefault((ask, form), {"class": ask.kind, "query": ask.text, "form": form})
            record.setdefault(name, {})[f"{measure}_ms"] = [round(value, 4) for value in values]
        return list(records.values())


def p95(values: Sequence[float]) -> float:
    """The least value that 95 of 100 do not exceed; of fewer than twenty, the greatest."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]
