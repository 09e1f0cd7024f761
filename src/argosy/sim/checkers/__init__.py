"""Checkers watch from outside, by invariant name: they see true time, the store's inside, and every node's claims."""

from argosy.sim.checkers.auctions import AuctionChecker
from argosy.sim.checkers.index_controller import IndexControllerChecker
from argosy.sim.checkers.liveness import unsettled_units
from argosy.sim.checkers.ring import RingChecker
from argosy.sim.checkers.serving import ServingChecker
from argosy.sim.checkers.violations import Violation, ViolationLog

__all__ = [
    "AuctionChecker",
    "IndexControllerChecker",
    "RingChecker",
    "ServingChecker",
    "Violation",
    "ViolationLog",
    "unsettled_units",
]
