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
        doc="defaults of the settings below; strict does not forgive within a window",
    )
    levels: int | None = setting(None, min=1, max=64, doc="number of buckets of a client in each window, one per level")
    buckets: int | None = setting(None, min=1, max=1 << 20, doc="number of buckets per level")
    failure_step: float | None = setting(None, min=1e-9, max=1, doc="increase of a bucket's probability per failure")
    success_step: float | None = setting(None, min=1e-12, max=1, doc="decrease of a bucket's probability per success")
    decay_per_s: float | None = setting(None, min=0, doc="exponential decay of a probability; 0.01 halves it in 69 s")
    window_s: float | None = setting(
        None, min=0.1, doc="lifetime of one hash; clients that collide are separated in the next window"
    )
    final: str = setting("min", choices=tuple(FINALS), doc="how the probabilities of a client's buckets are combined")
    hashing: str = setting(
        "slices",
        choices=HASHINGS,
        doc="hash function; double is compatible with the Go original, but clients collide more often",
    )
    secret: str | None = setting(
        None,
        secret=True,
        doc="secret of the fleet for the hash; with it clients cannot choose ids that collide with those of others",
    )
    admitted_min: float = setting(0.0, min=0, max=1, doc="fraction of a blocked client's requests that is admitted")
    is_shadow: bool = setting(False, doc="decide and count, but admit every request")
    clients_max: int = setting(65_536, min=2, doc="cached clients, 300 bytes each")

    store: str | None = setting(
        None,
        doc="shared store of all instances: redis[s]:// or valkey[s]:// (also +sentinel or +cluster); by default each "
        "instance decides alone",
    )
    namespace: str = setting("", doc="first part of every key; by default none, as in the design's schema")
    squash: str = setting(
        "rebase", choices=SQUASHES, doc="how a fetched value is merged with the local one; see the page on the throttle"
    )
    squash_weight: float = setting(0.5, min=0, max=1, doc="weight of the fetched value with squash = weighted")
    flush_s: float = setting(0.25, min=0.01, max=60, doc="interval of pushes to the store")
    poll_s: float = setting(1.0, min=0.01, max=60, doc="interval of pulls from the store; up to 5 s is enough")
    call_timeout_s: float = setting(
        0.5, min=0.01, max=60, doc="timeout of a call to the store, which then counts as unreachable"
    )
    attempts_max: int = setting(4, min=1, max=20, doc="attempts to send a batch before it is dropped")
    cold_start_s: float = setting(1.0, min=0, max=60, doc="maximum time that a new instance waits for the shared state")
    queue_max: int = setting(
        100_000, min=1, doc="maximum number of buckets with changes to push; further changes are dropped"
    )

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
        overrides = {name: value for name in _OVERRIDES if (value := getattr(self, name)) is not None}
        return replace(
            preset(self.preset),
            final=FINALS[self.final],
            hashing=self.hashing,
            secret=None if self.secret is None else self.secret.encode(),
            admitted_min=self.admitted_min,
            is_shadow=self.is_shadow,
            clients_max=self.clients_max,
            **overrides,
        )
