"""Settings of the fair throttle, each with its reason."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from argosy.base.errors import Invalid
from argosy.base.settings import declarations, setting
from argosy.throttle.model import FINALS, HASHINGS, PRESETS, Config, preset
from argosy.throttle.rows import SQUASHES

_OVERRIDES = ("levels", "buckets", "failure_step", "success_step", "decay_per_s", "window_s")


@dataclass(frozen=True)
class ThrottleSettings:
    """Fair admission when the resource runs short, and its shared state."""

    SECTION: ClassVar[str] = "throttle"

    preset: str = setting(
        "standard",
        choices=tuple(PRESETS),
        doc="defaults of the numbers below: strict does not forgive within a window",
    )
    levels: int | None = setting(
        None, min=1, max=64, doc="buckets of a client in each window; it is blamed by the least of them"
    )
    buckets: int | None = setting(None, min=1, max=1 << 20, doc="buckets of each level")
    failure_step: float | None = setting(None, min=1e-9, max=1, doc="increase of a bucket's probability per failure")
    success_step: float | None = setting(None, min=1e-12, max=1, doc="decrease per success")
    decay_per_s: float | None = setting(None, min=0, doc="decay of a probability: 0.01 halves it in 69 s")
    window_s: float | None = setting(None, min=0.1, doc="lifetime of one hash: collisions end with the window")
    final: str = setting("min", choices=tuple(FINALS), doc="how the probabilities of the levels are combined")
    hashing: str = setting("slices", choices=HASHINGS, doc="double is compatible with the Go original; collides more")
    secret: str | None = setting(
        None, secret=True, doc="shared by the fleet: without it clients cannot choose ids that collide with others"
    )
    admitted_min: float = setting(0.0, min=0, max=1, doc="fraction of a blocked client's requests that passes")
    is_shadow: bool = setting(False, doc="decide and count, but admit every request")
    clients_max: int = setting(65_536, min=2, doc="clients whose buckets are cached: 300 bytes each")

    store: str | None = setting(
        None,
        doc="shared store of all instances: redis[s]:// or valkey[s]:// (also +sentinel or +cluster); by default each "
        "instance decides alone",
    )
    namespace: str = setting("", doc="first part of every key; by default none, as in the design's schema")
    squash: str = setting("rebase", choices=SQUASHES, doc="how the fetched value and the local one are merged")
    squash_weight: float = setting(0.5, min=0, max=1, doc="the store's share with squash = weighted")
    flush_s: float = setting(0.25, min=0.01, max=60, doc="interval of pushes; with a longer one peers learn later")
    poll_s: float = setting(1.0, min=0.01, max=60, doc="interval of pulls; 1 to 5 s are enough")
    call_timeout_s: float = setting(0.5, min=0.01, max=60, doc="a store that has not answered by then is unreachable")
    attempts_max: int = setting(4, min=1, max=20, doc="times that a batch is sent before it is dropped")
    cold_start_s: float = setting(1.0, min=0, max=60, doc="time that a new instance waits for the shared state")
    queue_max: int = setting(100_000, min=1, doc="buckets with changes to push; more are dropped")

    def check(self) -> Iterable[str]:
        if self.poll_s < self.flush_s:
            yield f"poll_s ({self.poll_s}) must not be shorter than flush_s ({self.flush_s}): one round does both"
        if self.namespace and not all(c.isalnum() or c in "-_." for c in self.namespace):
            yield f"a namespace has letters, digits, '-', '_' and '.' only, not {self.namespace!r}"
        try:
            self.config()
        except Invalid as wrong:
            yield str(wrong)

    def check_values(self) -> None:
        """Invalid if a value is out of range. Loaded settings are checked already; those of a program are not."""
        wrong = []
        for (_, name), spec in declarations([type(self)]).items():
            try:
                spec.kind.check(getattr(self, name))
            except Invalid as why:
                wrong.append(f"{name}: {why}")
        if problems := wrong or list(self.check()):
            raise Invalid(f"invalid throttle settings: {'; '.join(problems)}")

    def config(self) -> Config:
        """The configuration of the throttle."""
        given = {name: value for name in _OVERRIDES if (value := getattr(self, name)) is not None}
        return replace(
            preset(self.preset),
            final=FINALS[self.final],
            hashing=self.hashing,
            secret=None if self.secret is None else self.secret.encode(),
            admitted_min=self.admitted_min,
            is_shadow=self.is_shadow,
            clients_max=self.clients_max,
            **given,
        )
