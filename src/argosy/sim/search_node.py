"""A search node on a simulated machine: the real node, composed as `argosy serve` does it."""

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
from argosy.sim.index_executor import SimBuildExecutor, SimIndex, SimIndexSet, encode_index
from argosy.sim.link import Link
from argosy.sim.loop import SimClock
from argosy.sim.plan import SearchPlan
from argosy.sim.repositories import CatalogReader, SimFetcher
from argosy.sim.space import SimSearch

T = TypeVar("T")

QUERY = encode_query(Substring("anything"))
STREAM_STEP_BYTES = 16 << 20  # sent between two checks whether both machines are still reachable


class PeerHost(Protocol):
    """A machine as its peers see it."""

    link: Link

    @property
    def can_answer(self) -> bool: ...

    def search_node(self, space: str) -> "SimSearchNode | None": ...


class _ObservedSearchNode(SearchNode):
    """A search node that reports its evictions."""

    on_evicted: Callable[[str], None]

    def _release(self, name: str, reason: str, *, is_eviction: bool) -> None:
        if is_eviction:
            self.on_evicted(name)
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
        self._index_set = SimIndexSet(clock=clock, random=random, on_put=self._on_put, on_drop=self._on_drop)
        executor = SimBuildExecutor(
            clock=clock,
            random=random,
            bytes_per_s=plan.index_bytes_per_s,
            damage_chance=lambda: space.damage_chance,
            on_damage=lambda repository: space.checker.on_damage_found(name, repository),
            counts=space.provisioned,
        )
        fetcher = SimFetcher(
            space.origins,
            clock=clock,
            random=random,
            bytes_per_s=plan.fetch_bytes_per_s,
            failure_chance=lambda: space.failure_chance,
        )
        peers = _Peers(space.name, link, machines, clock, plan.stream_bytes_per_s)
        self.node = _ObservedSearchNode(
            self.catalog,
            fetcher,
            self._index_set,
            node_id=name,
            address=f"{name}:6070",
            settings=plan.settings(),
            nodes=peers,
            executor=executor,
            clock=clock,
            random=random,
            metrics=metrics,
        )
        self.node.on_evicted = lambda repository: space.on_evicted(name, repository)
        self._member: OwnershipNode | None = None
        self.local_node: LocalNode | None = None

    def join(self, member: OwnershipNode) -> None:
        self.node.join(member, claimed_after_s=member.claim_wait_s)
        self.catalog.observers.append(member.catalog_changed)
        self._member = member
        self.local_node = LocalNode(
            self._index_set,
            self.node,
            node_id=self.name,
            address=f"{self.name}:6070",
            may_answer=member.holds_any,
            in_thread=_run_inline,
            clock=self._clock,
        )
        # As in `app.roles.search`: a search that is running ends before its index is dropped.
        self.node.before_drop = partial(quiesce, self.local_node, self._clock)

    def commit_of(self, repository: str) -> str | None:
        """The commit of its index; None without an index."""
        index = self._index_set._indexes.get(repository)
        return index.commit if isinstance(index, SimIndex) else None

    def own_index(self, repository: str) -> SimIndex:
        """The index for a peer; raises if this node may not serve it."""
        assert self.local_node is not None
        index = self.local_node._serving.index(repository)
        assert isinstance(index, SimIndex)
        return index

    async def run_query(self, repositories: Sequence[str]) -> None:
        """A client's query over some repositories."""
        assert self.local_node is not None
        answer = await self.local_node.search(SearchRequest(QUERY, tuple(repositories)))
        missing = {each.repository for each in answer.missing}
        returned = [each for each in repositories if each not in missing]
        self._space.checker.on_response(self.name, returned)
        self.node.record_searches(returned)

    def _on_put(self, index: SimIndex) -> None:
        repos = self.node._controller.repos
        self._space.on_put(
            self.name,
            index,
            budget_bytes=self.node.budget_bytes(),
            leaving=[each.name for each in repos.values() if each.is_leaving],
        )

    def _on_drop(self, repository: str) -> None:
        self._space.checker.on_dropped(self.name, repository)


async def _run_inline(work: Callable[[], T]) -> T:
    # Threads would take real time and end in any order.
    return work()


class _Peers:
    """Implements `Nodes`: the other machines, if the links of both ends are whole."""

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
        # Both links: a partition of either machine cuts the connection.
        is_there = machine is not None and machine.can_answer and machine.link.is_whole() and self._link.is_whole()
        found = machine.search_node(self._space) if machine is not None and is_there else None
        if found is None:
            raise Unavailable(f"node {name!r} is unreachable")
        return found

    async def wait(self, size_bytes: int) -> None:
        await self._clock.sleep(self._link.latency() + size_bytes / self._bytes_per_s)


class _Peer:
    """Another machine, as the source of an index."""

    def __init__(self, peers: _Peers, name: str) -> None:
        self._peers = peers
        self._name = name

    async def index(self, repository: str) -> AsyncIterator[bytes]:
        await self._peers.wait(0)
        sender = self._peers.reach(self._name)
        index = sender.own_index(repository)
        for sent_bytes in range(0, index.index_bytes, STREAM_STEP_BYTES):
            await self._peers.wait(min(STREAM_STEP_BYTES, index.index_bytes - sent_bytes))
            # A process that was restarted meanwhile has an empty memory.
            if self._peers.reach(self._name) is not sender:
                raise Unavailable(f"node {self._name!r} was restarted")
        yield encode_index(index)
