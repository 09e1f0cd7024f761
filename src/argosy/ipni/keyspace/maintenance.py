"""Background work of a query node: follows the layout, fetches slots that it gained, deletes those that it lost.

Each step is bounded and its result is stored, so a restarted node continues; a slot that was being fetched starts
again.
"""

from argosy.base import logs
from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Conflict, Invalid, NotOwner, Unavailable
from argosy.ipni.keyspace.layout import next_pull
from argosy.ipni.keyspace.query_node import QueryNodeService
from argosy.ipni.keyspace.sharded_store import Connect
from argosy.ipni.settings import KeyspaceSettings

PULL_SLOTS_MAX = 256  # per request; a page ends earlier if they have many entries

_log = logs.get("ipni.keyspace")


class KeyspaceMaintenance:
    """Maintenance of one node; `run` it until it is cancelled."""

    def __init__(
        self, node: QueryNodeService, connect: Connect, *, clock: Clock, settings: KeyspaceSettings | None = None
    ) -> None:
        self._node = node
        self._connect = connect
        self._clock = clock
        self._settings = settings or KeyspaceSettings()
        self._failures = 0
        self._under_way: tuple[str, int, bytes] = ("", -1, b"")  # source, slot, cursor within it
        self._safe_version = 0
        self._last_warning = ""

    async def run(self) -> None:
        while True:
            try:
                is_more = await self.step()
            except ArgosyError as why:
                self._warn_once(why)
                # The error may last, so the loop sleeps before it tries again.
                is_more = False
            if not is_more:
                await self._clock.sleep(self._settings.idle_s)

    async def step(self) -> bool:
        """Does one bounded piece of work; returns whether there may be more to do at once."""
        try:
            await self._node.reload()
        # The node keeps its present layout and its work: the operator's file is wrong, not the node's data.
        except Invalid as why:
            self._warn_once(why)
        # In this order: slots that are missing delay the move, what is left over only takes space.
        return await self._pull() or await self._clear() or await self._sweep()

    async def _pull(self) -> bool:
        layout, node = self._node.layout, self._node
        source, slots = next_pull(node.pending_moves(), failures=self._failures, slots_max=PULL_SLOTS_MAX)
        if not slots:
            self._failures = 0
            return False
        # The cursor is that of one source: another one may have other entries, so the slot starts again there.
        cursor = self._under_way[2] if self._under_way[:2] == (source, slots[0]) else b""
        self._under_way = ("", -1, b"")
        try:
            source_node = self._connect(layout.urls[source])
            page = await source_node.export(layout.version, slots, cursor, limit=self._settings.page_entries)
            await node.store_page(layout.version, slots, page)
        except (Unavailable, NotOwner, Conflict) as why:
            self._failures += 1  # the next attempt uses another source
            self._warn_once(why)
            return False
        if page.finished < len(slots):
            self._under_way = (source, slots[page.finished], page.cursor)
        return True

    async def _clear(self) -> bool:
        layout, node = self._node.layout, self._node
        # While slots move, the previous owners are the only ones that certainly have everything.
        if layout.previous is not None or node.state.is_cleared or not await self._is_safe():
            return False
        await node.clear(layout.version, entries_max=self._settings.clear_entries)
        return True

    async def _is_safe(self) -> bool:
        """Whether all members follow this layout: then each has all its slots, and none serves
        requests of an older layout."""
        layout = self._node.layout
        # Checked once per version: a node that follows a layout never returns to an older one.
        if self._safe_version != layout.version:
            for name, url in layout.urls.items():
                if name != self._node.name:
                    try:
                        await self._connect(url).status(layout.version)
                    except (Unavailable, Conflict) as why:
                        self._warn_once(why)
                        return False
            self._safe_version = layout.version
        return True

    async def _sweep(self) -> bool:
        return await self._node.sweep(self._settings.clear_entries) > 0

    def _warn_once(self, why: ArgosyError) -> None:
        """Logs a repeated warning once."""
        if str(why) != self._last_warning:
            self._last_warning = str(why)
            _log.warning("query node waiting", node=self._node.name, why=self._last_warning)
