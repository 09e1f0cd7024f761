"""One query put to many nodes: the machine that decides whom to ask, whom to ask again, and when to stop waiting.

Every repository is answered for by exactly one of the answers taken. The first answer wins, except that an answer that
has all of earlier ones and more replaces them: what an answer cost is told for the whole of it and cannot be divided.
For the same reason an answer that overlaps others without having all of them is not taken, and what only it has is
asked for again, alone.

A question that fails, or whose node cannot answer for a repository, is put to another holder if there is one. One that
is late is put to another holder, too, and whoever comes first is taken; while there is none it is looked for again,
because a node that stands still loses its repositories to others. A node that no longer holds what it was asked for has
let go a moment before we were told: who has it now is known in another moment, and is waited for. What is left at the
deadline is missing, and so is what nobody else can be asked for (GW-1).
"""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Protocol

import msgspec

from argosy.base.state_machine import earliest
from argosy.search.model import Missing, MissingReason

HOLDERS_TRIED_MAX = 3  # for one repository: further ones would not save a query that has failed so often
LOOK_AGAIN_S = 0.25  # for another holder, after a late one had none, or enough was asked twice already
OVERDUE_S = 1.0  # a node that is silent for so long is taken for broken: not to ask another is no saving
HANDOVER_S = 1.0  # news of a lease that changed hands takes milliseconds; no query waits longer for it
HANDOVER_LOOK_S = 0.01


class ReplicaPicker(Protocol):
    """Who else may be asked, as is known at this moment."""

    def another(self, name: str, tried: Collection[str], now: float) -> str | None:
        """A node to ask for the repository that has not been tried."""
        ...

    def hedge_after_s(self, address: str) -> float: ...

    def may_hedge(self) -> bool:
        """Whether one more second question may be asked; it counts as asked."""
        ...


class NodeRequest(msgspec.Struct, frozen=True):
    id: int
    address: str
    names: tuple[str, ...]


# -- events ------------------------------------------------------------------------------------------------------------


class ResponseReceived(msgspec.Struct, frozen=True):
    question: int
    missing: tuple[Missing, ...] = ()  # what the node could not answer for


class RequestFailed(msgspec.Struct, frozen=True):
    """No answer will come."""

    question: int
    why: MissingReason
    detail: str


Event = ResponseReceived | RequestFailed


# -- effects -----------------------------------------------------------------------------------------------------------


class CancelReason(Enum):
    """Why nobody waits for an answer any more."""

    OVERTAKEN = "overtaken"
    TIMED_OUT = "timed out"


class SendRequest(msgspec.Struct, frozen=True):
    question: NodeRequest


class CancelRequest(msgspec.Struct, frozen=True):
    question: int
    reason: CancelReason


Effect = SendRequest | CancelRequest


class ScatterMachine:
    """The machine of one query."""

    def __init__(
        self, first: Iterable[tuple[str, tuple[str, ...]]], holders: ReplicaPicker, *, deadline: float
    ) -> None:
        """`first`: the addresses to ask, each with the repositories to ask for; no repository is named twice."""
        self.taken: dict[int, frozenset[str]] = {}  # questions whose answers count, and what they answer for
        self.missing: dict[str, Missing] = {}
        self.hedges = 0
        self._first = tuple(first)
        self._holders = holders
        self._deadline = deadline
        self._open = {name for _, names in self._first for name in names}
        self._live: dict[int, NodeRequest] = {}
        self._hedge_at: dict[int, float] = {}
        self._asked_at: dict[int, float] = {}
        self._tried: dict[str, list[str]] = {}  # only of repositories that were asked for more than once
        self._changing: dict[str, tuple[Missing, float]] = {}  # in nobody's hands, and until when that is waited for
        self._look_at: float | None = None  # who has them now
        self._next_id = 0

    @property
    def is_over(self) -> bool:
        return not self._open

    def deadline(self) -> float | None:
        if self.is_over:
            return None
        due = min((self._deadline, *self._hedge_at.values()))
        return due if self._look_at is None else min(due, self._look_at)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case ResponseReceived(id, missing) if id in self._live:
                question = self._end(id)
                lacking = {each.repository: each for each in missing}
                effects += self._take(question, lacking.keys(), now)
                effects += self._retry(question, lacking, now)
            case RequestFailed(id, why, detail) if id in self._live:
                question = self._end(id)
                effects += self._retry(question, {each: Missing(each, why, detail) for each in question.names}, now)
            case None:
                effects += self._begin(now)
                effects += self._hedge(now)
                effects += self._look(now)
        if now >= self._deadline:
            effects += self._stop()
        return effects

    # -- asking -----------------------------------------------------------------------------------------------------

    def _begin(self, now: float) -> list[Effect]:
        first, self._first = self._first, ()
        return [self._ask(address, names, now) for address, names in first]

    def _ask(self, address: str, names: Iterable[str], now: float) -> SendRequest:
        question = NodeRequest(self._next_id, address, tuple(names))
        self._next_id += 1
        self._live[question.id] = question
        self._asked_at[question.id] = now
        self._hedge_at[question.id] = now + self._holders.hedge_after_s(address)
        return SendRequest(question)

    def _elsewhere(self, question: NodeRequest, names: Iterable[str], now: float) -> dict[str, list[str]]:
        """The repositories that others can be asked for, by the address to ask."""
        found: dict[str, list[str]] = {}
        for name in names:
            tried = self._tried.setdefault(name, [question.address])
            if len(tried) < HOLDERS_TRIED_MAX and (address := self._holders.another(name, tried, now)) is not None:
                found.setdefault(address, []).append(name)
        return found

    def _hedge(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for question in [self._live[id] for id, at in self._hedge_at.items() if at <= now]:
            del self._hedge_at[question.id]
            waiting = [name for name in question.names if name in self._open]
            is_overdue = now >= self._asked_at[question.id] + OVERDUE_S
            asked = 0
            for address, names in self._elsewhere(question, waiting, now).items():
                if is_overdue or self._holders.may_hedge():
                    self.hedges += 1
                    asked += len(names)
                    effects.append(self._ask_also(address, names, now))
            if asked < len(waiting):
                self._hedge_at[question.id] = now + LOOK_AGAIN_S
        return effects

    def _retry(self, question: NodeRequest, lacking: dict[str, Missing], now: float) -> list[Effect]:
        """Asks others for what is lacking; what nobody else is or can be asked for is missing."""
        if not lacking:
            return []
        waiting = [name for name in question.names if name in lacking and name in self._open]
        elsewhere = self._elsewhere(question, waiting, now)
        asked = {name for names in elsewhere.values() for name in names}
        asked.update(name for live in self._live.values() for name in live.names)
        for name in waiting:
            if name in asked:
                continue
            if lacking[name].why is MissingReason.UNOWNED and len(self._tried[name]) < HOLDERS_TRIED_MAX:
                self._changing.setdefault(name, (lacking[name], now + HANDOVER_S))
                self._look_at = earliest(self._look_at, now + HANDOVER_LOOK_S)
            else:
                self._miss(lacking[name])
        return [self._ask_also(address, names, now) for address, names in elsewhere.items()]

    def _look(self, now: float) -> list[Effect]:
        """Asks whoever has been told of meanwhile for what has changed hands."""
        if self._look_at is None or now < self._look_at:
            return []
        found: dict[str, list[str]] = {}
        for name, (missing, until) in list(self._changing.items()):
            if (address := self._holders.another(name, self._tried[name], now)) is not None:
                found.setdefault(address, []).append(name)
                del self._changing[name]
            elif now >= until:
                self._miss(missing)
        self._look_at = now + HANDOVER_LOOK_S if self._changing else None
        return [self._ask_also(address, names, now) for address, names in found.items()]

    def _miss(self, missing: Missing) -> None:
        self.missing[missing.repository] = missing
        self._open.discard(missing.repository)
        self._changing.pop(missing.repository, None)

    def _ask_also(self, address: str, names: list[str], now: float) -> SendRequest:
        for name in names:
            self._tried[name].append(address)
        return self._ask(address, names, now)

    # -- taking -----------------------------------------------------------------------------------------------------

    def _take(self, question: NodeRequest, lacking: Collection[str], now: float) -> list[Effect]:
        has = frozenset(question.names).difference(lacking)
        fresh = has & self._open
        if not fresh:
            return []
        if len(fresh) < len(has):  # else nobody has told of any of them
            known = [id for id, names in self.taken.items() if not names.isdisjoint(has)]
            if not all(self.taken[id] <= has for id in known):
                return [self._ask(question.address, sorted(fresh), now)]
            for id in known:
                del self.taken[id]
        self.taken[question.id] = has
        self._open -= has
        if not self._tried:
            return []  # nothing was asked twice, so nobody else was asked for these
        for name in has & self._changing.keys():
            del self._changing[name]
        return self._call_back()

    def _call_back(self) -> list[Effect]:
        """Ends questions that nobody needs the answers of any more."""
        idle = [id for id, question in self._live.items() if self._open.isdisjoint(question.names)]
        for id in idle:
            self._end(id)
        return [CancelRequest(id, CancelReason.OVERTAKEN) for id in idle]

    def _stop(self) -> list[Effect]:
        for missing, _ in list(self._changing.values()):
            self._miss(missing)
        for question in self._live.values():
            for name in self._open.intersection(question.names):
                self.missing[name] = Missing(
                    name, MissingReason.TIMED_OUT, f"{question.address} did not answer in time"
                )
        assert self._open <= self.missing.keys()  # GW-1
        self._open.clear()
        live, self._live, self._hedge_at, self._asked_at = self._live, {}, {}, {}
        return [CancelRequest(id, CancelReason.TIMED_OUT) for id in live]

    def _end(self, id: int) -> NodeRequest:
        self._hedge_at.pop(id, None)
        del self._asked_at[id]
        return self._live.pop(id)
