"""Checkers watch from outside, by invariant name: they see true time, the store's inside, and every node's claims."""

from argosy.sim.checkers.auctions import AuctionChecker
from argosy.sim.checkers.findings import Findings, Violation
from argosy.sim.checkers.library import LibraryChecker
from argosy.sim.checkers.liveness import unsettled
from argosy.sim.checkers.ring import RingChecker
from argosy.sim.checkers.serving import ServingChecker

__all__ = ["AuctionChecker", "Findings", "LibraryChecker", "RingChecker", "ServingChecker", "Violation", "unsettled"]
