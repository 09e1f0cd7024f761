"""Checkers observe a world from outside, by invariant: they see true time, the inside of the store, and every node.

placement     OWN-2, OWN-3, OWN-5, OWN-6: how units get their holders
served_units  OWN-1, OWN-4, NODE-1, NODE-2, LIVE: which node serves which unit, and from which index
jobs          JOB-1, JOB-2, JOB-3
throttle      THR-1, THR-2
"""

from argosy.sim.checkers.placement import AuctionChecker, RingChecker
from argosy.sim.checkers.served_units import IndexControllerChecker, ServingChecker, unsettled_units

__all__ = ["AuctionChecker", "IndexControllerChecker", "RingChecker", "ServingChecker", "unsettled_units"]
