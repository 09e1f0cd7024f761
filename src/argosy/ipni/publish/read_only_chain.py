"""A chain that is served by one process while others may publish to it, one after another.

Nothing of it is kept here but the key: the head is looked up whenever it is asked for, so that a reader never gets an
older one than the store has.
"""

from argosy.base.clock import Clock
from argosy.ipni.formats import head as heads
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import TOPIC
from argosy.ipni.formats.keys import PrivateKey
from argosy.ipni.publish.ports import ChainStore

LOOK_S = 5.0  # how often is looked whether another process has published


class HeadSigner:
    """Signs a head once, however often it is asked for."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self._signed: tuple[Cid, bytes] | None = None

    def signed(self, head: Cid | None) -> bytes | None:
        if head is None:
            return None
        if self._signed is None or self._signed[0] != head:
            self._signed = (head, heads.sign(head, self._key, TOPIC))
        return self._signed[1]


class ReadOnlyChain:
    """`Chain` over a store that is only read. Made by `open`."""

    def __init__(self, key: PrivateKey, store: ChainStore, head: Cid | None, *, clock: Clock, look_s: float) -> None:
        self._store = store
        self._head = head
        self._clock = clock
        self._look_s = look_s
        self._id = key.peer_id
        self._signer = HeadSigner(key)

    @classmethod
    async def open(cls, key: PrivateKey, store: ChainStore, *, clock: Clock, look_s: float = LOOK_S) -> "ReadOnlyChain":
        return cls(key, store, await store.head(), clock=clock, look_s=look_s)

    @property
    def id(self) -> str:
        return self._id

    @property
    def head(self) -> Cid | None:
        return self._head

    async def grown(self, seen: Cid | None) -> Cid:
        while (head := await self._looked()) is None or head == seen:
            await self._clock.sleep(self._look_s)
        return head

    async def signed_head(self) -> bytes | None:
        return self._signer.signed(await self._looked())

    async def block(self, cid: Cid) -> bytes | None:
        return await self._store.block(cid)

    async def _looked(self) -> Cid | None:
        self._head = await self._store.head()
        return self._head
