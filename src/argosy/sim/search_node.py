"""One run of a search node on a simulated machine: the real node, put together as `argosy serve` does it."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from argosy.base.clock import Random
from argosy.base.errors import Unavailable
from argosy.base.metrics import Metrics
from argosy.ownership.node_service import OwnershipNode
from argosy.search.fleet.local_node import LocalNode
from argosy.search.fleet.model import SearchRequest
from argosy.search.fleet.ports import Node
from argosy.search.fleet.search_node import SearchNode, quiesce
from argosy.search.query.codec import encode_query
from argosy.search.query.tree import Substring
from argosy.sim.clocks import SimClock
from argosy.sim.index_executor import SimBuildExecutor, SimIndex, SimIndexSet, encode_index
from argosy.sim.link import Link
from argosy.sim.origins import SimFetcher
from argosy.sim.plan import SearchPlan
from argosy.sim.repo_catalog import CatalogReader
from argosy.sim.space import SimSearch

T = TypeVar("T")

QUERY = encode_query(Substring("anything"))
STREAM_STEP_BYTES = 16 << 20  # what a stream carries between two looks at whether both ends still stand


class PeerHost(Protocol):
    """What peers see of a machine."""

    link: Link

    @property
    def can_answer(self) -> bool: ...

    def searching(self, space: str) -> "SimSearchNode | None": ...


class _Node(SearchNode):
    """A search node that says whom it evicts."""

    evicted: Callable[[str], None]

    def _release(self, name: str, reason: str, *, is_eviction: bool) -> None:
        if is_eviction:
            self.evicted(name)
        super()._release(name, reason, is_eviction=is_eviction)


class SimSearchNode:
    """A search node of one space."""

    def __init__(
        self,
        name: str,
        space: SimSearch,
        plan: SearchPlan,
        link: Link,
        machines: Callable[[str], PeerHost | None],
        *,
        clock: SimClock,
        random: Random,
        metrics: Metrics,
    ) -> None:
        self.name = name
        self.catalog: CatalogReader = space.specs.read_by(name, link)
        self._space = space
        self._clock = clock
        self._shelf = SimIndexSet(clock=clock, random=random, put=self._put, dropped=self._dropped)
        executor = SimBuildExecutor(
            clock=clock,
            random=random,
            bytes_per_s=plan.index_bytes_per_s,
            damage_chance=lambda: space.damage_chance,
            found_damaged=lambda repository: space.checker.on_damage_found(name, repository),
            counts=space.made,
        )
        fetcher = SimFetcher(
            space.origins,
            clock=clock,
            random=random,
            bytes_per_s=plan.fetch_bytes_per_s,
            failure_chance=lambda: space.failure_chance,
        )
        peers = _Peers(space.name, link, machines, clock, plan.stream_bytes_per_s)
        self.node = _Node(
            self.catalog,
            fetcher,
            self._shelf,
            node_id=name,
            address=f"{name}:6070",
            settings=plan.settings(),
            nodes=peers,
            executor=executor,
            clock=clock,
            random=random,
            metrics=metrics,
        )
        self.node.evicted = lambda repository: space.evicted(name, repository)
        self._member: OwnershipNode | None = None
        self.local_node: LocalNode | None = None

    def join(self, member: OwnershipNode) -> None:
        self.node.join(member, claimed_after_s=member.claim_wait_s)
        self.catalog.observers.append(member.catalog_changed)
        self._member = member
        self.local_node = LocalNode(
            self._shelf,
            self.node,
            node_id=self.name,
            address=f"{self.name}:6070",
            may_answer=member.holds_any,
            in_thread=_here,
            clock=self._clock,
        )
        self.node.before_drop = partial(quiesce, self.local_node, self._clock)

    def commit_of(self, repository: str) -> str | None:
        """What its index is of; None without an index."""
        index = self._shelf._indexes.get(repository)
        return index.commit if isinstance(index, SimIndex) else None

    def at_hand(self, repository: str) -> SimIndex:
        """For a peer; whatever keeps this node from answering is raised."""
        assert self.local_node is not None
        index = self.local_node._serving.index(repository)
        assert isinstance(index, SimIndex)
        return index

    async def ask(self, repositories: Sequence[str]) -> None:
        """A client's question about some repositories."""
        assert self.local_node is not None
        answer = await self.local_node.search(SearchRequest(QUERY, tuple(repositories)))
        missing = {each.repository for each in answer.missing}
        told = [each for each in repositories if each not in missing]
        self._space.checker.on_response(self.name, told)
        self.node.record_searches(told)

    def _put(self, index: SimIndex) -> None:
        volumes = self.node._controller.repos
        self._space.put(
            self.name,
            index,
            budget_bytes=self.node.budget_bytes(),
            given_up=[each.name for each in volumes.values() if each.is_leaving],
        )

    def _dropped(self, repository: str) -> None:
        self._space.checker.on_dropped(self.name, repository)


async def _here(work: Callable[[], T]) -> T:
    return work()


class _Peers:
    """Implements `Nodes`: other machines, as far as both ends' links are whole."""

    def __init__(
        self, space: str, link: Link, machines: Callable[[str], PeerHost | None], clock: SimClock, bytes_per_s: float
    ) -> None:
        self._space = space
        self._link = link
        self._machines = machines
        self._clock = clock
        self._bytes_per_s = bytes_per_s

    def at(self, address: str) -> Node:
        return _Peer(self, address.partition(":")[0])  # type: ignore[return-value]

    def reach(self, name: str) -> "SimSearchNode":
        machine = self._machines(name)
        is_there = machine is not None and machine.can_answer and machine.link.is_whole() and self._link.is_whole()
        found = machine.searching(self._space) if machine is not None and is_there else None
        if found is None:
            raise Unavailable(f"node {name!r} does not answer")
        return found

    async def wait(self, size_bytes: int) -> None:
        await self._clock.sleep(self._link.latency() + size_bytes / self._bytes_per_s)


class _Peer:
    """Another machine, asked for an index."""

    def __init__(self, peers: _Peers, name: str) -> None:
        self._peers = peers
        self._name = name

    async def index(self, repository: str) -> AsyncIterator[bytes]:
        await self._peers.wait(0)
        sender = self._peers.reach(self._name)
        index = sender.at_hand(repository)
        for sent_bytes in range(0, index.index_bytes, STREAM_STEP_BYTES):
            await self._peers.wait(min(STREAM_STEP_BYTES, index.index_bytes - sent_bytes))
            if self._peers.reach(self._name) is not sender:
                raise Unavailable(f"node {self._name!r} was started anew")
        yield encode_index(index)
