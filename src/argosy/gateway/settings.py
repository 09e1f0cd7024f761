"""The numbers of the front door, each with its reason."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

MIB = 1 << 20


@dataclass(frozen=True)
class GatewaySettings:
    """How queries are shared out over the nodes, and what is done about slow and broken ones."""

    SECTION: ClassVar[str] = "gateway"

    deadline_s: float = setting(20.0, min=0.1, doc="no query takes longer, whatever it asks for")
    margin_s: float = setting(0.25, min=0.0, doc="nodes answer with what they have at the deadline; their way back")
    turn_s: float = setting(
        0.1, min=0.0, max=10.0, doc="a query waits so long at most for those under way, if more would slow all down"
    )
    queries_max: int = setting(256, min=1, doc="queries that are put to nodes at a time; further ones are turned away")
    with_hedging: bool = setting(True, doc="ask another holder, too, when one is later than it usually is")
    hedge_min_s: float = setting(0.03, min=0.001, doc="no second question is asked before this")
    hedge_share: float = setting(0.1, min=0.0, max=1.0, doc="second questions, as a part of all: they are load, too")
    breaker_failures: int = setting(3, min=1, doc="failures in a row after which a node is left alone for a while")
    breaker_first_s: float = setting(1.0, min=0.01, doc="how long at first; doubles each time it fails again")
    breaker_ceiling_s: float = setting(30.0, min=0.01, doc="longest time a node is left alone")
    stall_s: float = setting(5.0, min=0.1, doc="a busy node that answers nobody for so long is left alone")
    cache_entries: int = setting(1024, min=0, doc="answers kept; 0 keeps none")
    cache_bytes: int = setting(64 * MIB, min=0, doc="memory they may take, about")
    cache_ttl_s: float = setting(2.0, min=0.0, doc="longest time an answer is kept; changes of the fleet end it sooner")
    status_s: float = setting(1.0, min=0.0, doc="how long what nodes say of themselves is taken for true")
    status_timeout_s: float = setting(1.0, min=0.05, doc="a node that has not told its state by then is silent")
    with_admission: bool = setting(True, doc="share capacity fairly between clients when it is short")

    def check(self) -> Iterable[str]:
        if self.breaker_first_s > self.breaker_ceiling_s:
            yield f"breaker_first_s ({self.breaker_first_s}) must not exceed breaker_ceiling_s"
        if self.hedge_min_s >= self.deadline_s:
            yield f"hedge_min_s ({self.hedge_min_s}) must be below deadline_s ({self.deadline_s})"
