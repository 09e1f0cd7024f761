"""The scatter state machine of one query: which nodes to send requests to, when to retry or hedge, when to stop
waiting.

Every repository is covered by exactly one accepted response. The first response wins, except that one that covers all
of earlier responses and more replaces them. A response that overlaps others without covering them is discarded, and
what only it covers is requested again alone: the statistics of a response hold for all of it and cannot be divided.

A request that fails, or whose node cannot serve a repository, is retried on another holder. A late request is hedged:
sent to another holder as well, and the first response wins. If there is no other holder, the routes are checked again,
because a stalled node loses its leases to others. When a node has released a lease before the gateway's watch reports
it, the new holder is awaited briefly. What is left at the deadline is missing, and so is what no other holder serves
(GW-1).
"""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Protocol

import msgspec

from argosy.base.state_machine import earliest
from argosy.search.model import Missing, MissingReason

HOLDERS_TRIED_MAX = 3  # per repository: after three failures a fourth holder rarely helps
RECHECK_S = 0.25  # pause before another try to hedge, if there was no other holder or no hedge token
OVERDUE_S = 1.0  # after this silence a node is assumed broken, and hedging it needs no token
HANDOFF_WAIT_S = 1.0  # the watch reports a changed lease within milliseconds; no query waits longer
# The watch is milliseconds behind the store, so a query that meets a handoff waits hardly longer than that.
HANDOFF_RECHECK_S = 0.01


class ReplicaPicker(Protocol):
    """Chooses other holders from the current routes."""

    def another(self, name: str, tried: Collection[str], now: float) -> str | None:
        """A holder of the repository that has not been tried; None if there is none."""
        ...

    def hedge_after_s(self, address: str) -> float: ...

    def may_hedge(self) -> bool:
        """Take a hedge token; False if there is none."""
        ...


class NodeRequest(msgspec.Struct, frozen=True):
    id: int
    address: str
    names: tuple[str, ...]


# -- events ------------------------------------------------------------------------------------------------------------


class ResponseReceived(msgspec.Struct, frozen=True):
    request: int
    missing: tuple[Missing, ...] = ()  # what the node could not serve


class RequestFailed(msgspec.Struct, frozen=True):
    """The request ended without a response."""

    request: int
    why: MissingReason
    detail: str


Event = ResponseReceived | RequestFailed


# -- effects -----------------------------------------------------------------------------------------------------------


class CancelReason(Enum):
    """Why a response is no longer awaited."""

    OVERTAKEN = "overtaken"
    TIMED_OUT = "timed out"


class SendRequest(msgspec.Struct, frozen=True):
    request: NodeRequest


class CancelRequest(msgspec.Struct, frozen=True):
    request: int
    reason: CancelReason


Effect = SendRequest | CancelRequest


class ScatterMachine:
    """The scatter state machine of one query."""

    def __init__(
        self, first: Iterable[tuple[str, tuple[str, ...]]], holders: ReplicaPicker, *, deadline: float
    ) -> None:
        """`first`: the first requests, as addresses with their repositories; no repository is named twice."""
        self.taken: dict[int, frozenset[str]] = {}  # accepted responses and the repositories each covers
        self.missing: dict[str, Missing] = {}
        self.hedges = 0
        self._first = tuple(first)
        self._holders = holders
        self._deadline = deadline
        self._open = {name for _, names in self._first for name in names}
        self._live: dict[int, NodeRequest] = {}
        self._hedge_at: dict[int, float] = {}
        self._sent_at: dict[int, float] = {}
        self._tried: dict[str, list[str]] = {}  # only of repositories requested more than once
        # Released by one node and not yet seen at another: why they are missing, and until when to wait for a holder.
        self._between_holders: dict[str, tuple[Missing, float]] = {}
        self._recheck_at: float | None = None  # when to look for their holders again
        self._next_id = 0

    @property
    def is_over(self) -> bool:
        return not self._open

    def deadline(self) -> float | None:
        if self.is_over:
            return None
        due = min((self._deadline, *self._hedge_at.values()))
        return due if self._recheck_at is None else min(due, self._recheck_at)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        effects: list[Effect] = []
        # An event of a request that is no longer live is ignored: it was cancelled, and its response may have been on
        # its way already.
        match event:
            case ResponseReceived(id, missing) if id in self._live:
                request = self._end(id)
                lacking = {each.repository: each for each in missing}
                # Accepted before the rest is retried, so that what it covers is no longer open then.
                effects += self._take(request, lacking.keys(), now)
                effects += self._retry(request, lacking, now)
            case RequestFailed(id, why, detail) if id in self._live:
                request = self._end(id)
                effects += self._retry(request, {each: Missing(each, why, detail) for each in request.names}, now)
            case None:  # the start, or a timer
                effects += self._begin(now)
                effects += self._hedge(now)
                effects += self._recheck_holders(now)
        # After the event: a response that arrives with the deadline is still accepted.
        if now >= self._deadline:
            effects += self._stop()
        return effects

    # -- sending ----------------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> list[Effect]:
        first, self._first = self._first, ()
        return [self._send(address, names, now) for address, names in first]

    def _send(self, address: str, names: Iterable[str], now: float) -> SendRequest:
        request = NodeRequest(self._next_id, address, tuple(names))
        self._next_id += 1
        self._live[request.id] = request
        self._sent_at[request.id] = now
        self._hedge_at[request.id] = now + self._holders.hedge_after_s(address)
        return SendRequest(request)

    def _other_holders(self, request: NodeRequest, names: Iterable[str], now: float) -> dict[str, list[str]]:
        """The repositories that have another holder, by its address."""
        result: dict[str, list[str]] = {}
        for name in names:
            tried = self._tried.setdefault(name, [request.address])
            if len(tried) < HOLDERS_TRIED_MAX and (address := self._holders.another(name, tried, now)) is not None:
                result.setdefault(address, []).append(name)
        return result

    def _hedge(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for request in [self._live[id] for id, at in self._hedge_at.items() if at <= now]:
            del self._hedge_at[request.id]
            waiting = [name for name in request.names if name in self._open]
            is_overdue = now >= self._sent_at[request.id] + OVERDUE_S
            hedged = 0
            for address, names in self._other_holders(request, waiting, now).items():
                if is_overdue or self._holders.may_hedge():
                    self.hedges += 1
                    hedged += len(names)
                    effects.append(self._send_again(address, names, now))
            # No token, or no other holder: the routes may show one later, because a stalled node loses its leases.
            if hedged < len(waiting):
                self._hedge_at[request.id] = now + RECHECK_S
        return effects

    def _retry(self, request: NodeRequest, lacking: dict[str, Missing], now: float) -> list[Effect]:
        """Send what is lacking to other holders; what no other holder serves is missing."""
        if not lacking:
            return []
        waiting = [name for name in request.names if name in lacking and name in self._open]
        others = self._other_holders(request, waiting, now)
        # What another request in flight covers, such as a hedged one, is not given up.
        requested = {name for names in others.values() for name in names}
        requested.update(name for live in self._live.values() for name in live.names)
        for name in waiting:
            if name in requested:
                continue
            # UNOWNED: the node has released the lease, so another one has it or is about to. The gateway's watch
            # reports that a few milliseconds later.
            if lacking[name].why is MissingReason.UNOWNED and len(self._tried[name]) < HOLDERS_TRIED_MAX:
                self._between_holders.setdefault(name, (lacking[name], now + HANDOFF_WAIT_S))
                self._recheck_at = earliest(self._recheck_at, now + HANDOFF_RECHECK_S)
            else:
                self._give_up_on(lacking[name])
        return [self._send_again(address, names, now) for address, names in others.items()]

    def _recheck_holders(self, now: float) -> list[Effect]:
        """Send what changed hands to holders that the routes show now."""
        if self._recheck_at is None or now < self._recheck_at:
            return []
        found: dict[str, list[str]] = {}
        for name, (missing, until) in list(self._between_holders.items()):
            if (address := self._holders.another(name, self._tried[name], now)) is not None:
                found.setdefault(address, []).append(name)
                del self._between_holders[name]
            elif now >= until:
                self._give_up_on(missing)
        self._recheck_at = now + HANDOFF_RECHECK_S if self._between_holders else None
        return [self._send_again(address, names, now) for address, names in found.items()]

    def _give_up_on(self, missing: Missing) -> None:
        self.missing[missing.repository] = missing
        self._open.discard(missing.repository)
        self._between_holders.pop(missing.repository, None)

    def _send_again(self, address: str, names: list[str], now: float) -> SendRequest:
        for name in names:
            self._tried[name].append(address)
        return self._send(address, names, now)

    # -- accepting responses ----------------------------------------------------------------------------------------

    def _take(self, request: NodeRequest, lacking: Collection[str], now: float) -> list[Effect]:
        has = frozenset(request.names).difference(lacking)
        fresh = has & self._open
        if not fresh:
            return []
        if len(fresh) < len(has):  # some are covered by earlier responses
            known = [id for id, names in self.taken.items() if not names.isdisjoint(has)]
            # Counts of matches cannot be split by repository, so two accepted responses must not overlap: either this
            # one replaces the others, or it is discarded and what only it has is requested alone.
            if not all(self.taken[id] <= has for id in known):
                return [self._send(request.address, sorted(fresh), now)]
            for id in known:
                del self.taken[id]
        self.taken[request.id] = has
        self._open -= has
        if not self._tried:
            return []  # nothing was requested twice, so no other request can be idle now
        for name in has & self._between_holders.keys():
            del self._between_holders[name]
        return self._cancel_idle()

    def _cancel_idle(self) -> list[Effect]:
        """Cancel requests whose repositories are all covered: their nodes need not finish the work."""
        idle = [id for id, request in self._live.items() if self._open.isdisjoint(request.names)]
        for id in idle:
            self._end(id)
        return [CancelRequest(id, CancelReason.OVERTAKEN) for id in idle]

    def _stop(self) -> list[Effect]:
        for missing, _ in list(self._between_holders.values()):
            self._give_up_on(missing)
        for request in self._live.values():
            for name in self._open.intersection(request.names):
                self.missing[name] = Missing(name, MissingReason.TIMED_OUT, f"{request.address} timed out")
        # Every repository of the query is in an accepted response or named as missing.
        assert self._open <= self.missing.keys()  # GW-1
        self._open.clear()
        live, self._live, self._hedge_at, self._sent_at = self._live, {}, {}, {}
        return [CancelRequest(id, CancelReason.TIMED_OUT) for id in live]

    def _end(self, id: int) -> NodeRequest:
        self._hedge_at.pop(id, None)
        del self._sent_at[id]
        return self._live.pop(id)
