"""The numbers of the fair throttle: declared once, with the reason for each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from argosy.base.errors import Invalid
from argosy.base.settings import declared, setting
from argosy.throttle.model import FINALS, HASHINGS, Config
from argosy.throttle.presets import PRESETS, preset
from argosy.throttle.squash import SQUASHES

_OVERRIDES = ("levels", "buckets", "failure_step", "success_step", "decay_per_s", "window_s")


@dataclass(frozen=True)
class ThrottleSettings:
    """Fair admission when the resource runs short, and how instances share what they learn."""

    SECTION: ClassVar[str] = "throttle"

    preset: str = setting(
        "standard",
        choices=tuple(PRESETS),
        doc="where the numbers below come from that are not set: strict never forgives within a window",
    )
    levels: int | None = setting(None, min=1, max=64, doc="buckets a client has in each window; all must blame it")
    buckets: int | None = setting(None, min=1, max=1 << 20, doc="buckets of each level")
    failure_step: float | None = setting(None, min=1e-9, max=1, doc="what one failure adds to a bucket's probability")
    success_step: float | None = setting(None, min=1e-12, max=1, doc="what one success takes away")
    decay_per_s: float | None = setting(None, min=0, doc="how fast time forgives: 0.01 halves a probability in 69 s")
    window_s: float | None = setting(None, min=0.1, doc="how long one hash is used: collisions end with the window")
    final: str = setting("min", choices=tuple(FINALS), doc="how the levels' probabilities become one")
    hashing: str = setting("slices", choices=HASHINGS, doc="double is compatible with the Go original; collides more")
    secret: str | None = setting(
        None, secret=True, doc="known to the fleet alone: clients cannot choose ids that fall into others' buckets"
    )
    admitted_min: float = setting(0.0, min=0, max=1, doc="part of a blocked client's requests that passes all the same")
    is_shadow: bool = setting(False, doc="decide and count, but let everybody pass")
    clients_max: int = setting(65_536, min=2, doc="clients whose buckets are remembered: 300 bytes each")

    store: str | None = setting(
        None,
        doc="where instances share what they learn: redis[s]://, valkey[s]://, redis[s]+cluster:// or "
        "redis+sentinel://; by default each decides alone",
    )
    namespace: str = setting("", doc="first part of every key; by default none, as in the design's schema")
    squash: str = setting("rebase", choices=SQUASHES, doc="how a fetched value and our own become one")
    squash_weight: float = setting(0.5, min=0, max=1, doc="the store's part, where squash is weighted")
    flush_s: float = setting(0.25, min=0.01, max=60, doc="how often changes are pushed; longer lets peers learn later")
    poll_s: float = setting(1.0, min=0.01, max=60, doc="how often the shared state is pulled; 1 to 5 s are enough")
    call_timeout_s: float = setting(0.5, min=0.01, max=60, doc="a store that has not answered by then is away")
    attempts_max: int = setting(4, min=1, max=20, doc="times a batch is sent before it is dropped")
    cold_start_s: float = setting(1.0, min=0, max=60, doc="a new instance waits this long for the shared state")
    queue_max: int = setting(100_000, min=1, doc="buckets with changes that wait to be pushed; past that is QueueFull")

    def check(self) -> Iterable[str]:
        if self.poll_s < self.flush_s:
            yield f"poll_s ({self.poll_s}) must not be shorter than flush_s ({self.flush_s}): one turn does both"
        if self.namespace and not all(c.isalnum() or c in "-_." for c in self.namespace):
            yield f"a namespace has letters, digits, '-', '_' and '.' only, not {self.namespace!r}"
        try:
            self.config()
        except Invalid as wrong:
            yield str(wrong)

    def check_values(self) -> None:
        """Invalid if a value does not fit. What is loaded was checked then; what a program makes was not."""
        wrong = []
        for (_, name), spec in declared([type(self)]).items():
            try:
                spec.kind.check(getattr(self, name))
            except Invalid as why:
                wrong.append(f"{name}: {why}")
        if problems := wrong or list(self.check()):
            raise Invalid(f"these throttle settings cannot be used: {'; '.join(problems)}")

    def config(self) -> Config:
        """The throttle that these settings describe."""
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
