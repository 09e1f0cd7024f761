"""The two windows of a throttle, and the cache of clients and their buckets.

Windows begin at multiples of their length since 1970, and the beginning of a window in milliseconds is its seed: every
instance computes the same without communication (the document's "rounded local time"). The current window decides; the
next one already learns. Rotation reads no clock: the caller passes the time.

The cache is bounded: two generations of half the size each, of which the older is dropped as a whole.
"""

from collections.abc import Callable

from argosy.base.errors import Invalid
from argosy.throttle.blue import Bucket, Window
from argosy.throttle.levels import Levels
from argosy.throttle.model import ClientId, Config

# A client can choose its id. Without this bound it could fill the cache with long ones.
CLIENT_ID_REMEMBERED_MAX = 256  # characters; longer ids are hashed each time instead of taking memory

# A client's buckets of the current window, of both windows, and its weight.
Entry = tuple[tuple[Bucket, ...], tuple[Bucket, ...], float]


class Windows:
    """Not safe for threads: everything except `young` is read and written under the throttle's lock."""

    __slots__ = (
        "_config",
        "_levels",
        "_old",
        "_weight_of",
        "_young_max",
        "ends_ms",
        "main",
        "next",
        "since_ms",
        "young",
    )

    def __init__(
        self,
        config: Config,
        now_ms: float,
        *,
        levels: Callable[[Config, int], Levels],
        weight_of: Callable[[ClientId], float] | None,
    ) -> None:
        self._config = config
        self._levels = levels
        self._weight_of = weight_of
        self._young_max = config.clients_max // 2
        self._start(_seed(now_ms, config.window_ms), None)

    def rotate(self, now_ms: float) -> bool:
        """Makes the window of `now_ms` the current one; returns whether that is a change."""
        # Checked again under the lock: another caller may have rotated meanwhile.
        if self.since_ms <= now_ms < self.ends_ms:
            return False
        seed = _seed(now_ms, self._config.window_ms)
        # After a pause of more than a window the next one is not the present one, and a cold window starts.
        self._start(seed, self.next if self.next.seed == seed else None)
        return True

    def _start(self, seed: int, warm: Window | None) -> None:
        # The next window learns for a whole window before it decides: a cold one would forgive every bad client at
        # once.
        following = seed + self._config.window_ms
        self.main = warm or self._window(seed)
        self.next = self._window(following)
        # A clock that is a little behind is skewed, and the window stays. A clock that has gone back by more than a
        # window was wrong before, and what was learnt then is dropped.
        self.since_ms, self.ends_ms = float(seed - self._config.window_ms), float(following)
        # New dictionaries, so that a reader without the lock finds the old entries or none.
        self.young: dict[ClientId, Entry] = {}
        self._old: dict[ClientId, Entry] = {}

    def _window(self, seed: int) -> Window:
        return Window(seed, self._config, self._levels(self._config, seed))

    def of_seed(self, seed: int) -> Window | None:
        """The window of this seed; None if it is neither of the two."""
        return self.main if self.main.seed == seed else self.next if self.next.seed == seed else None

    def entry(self, client_id: ClientId) -> Entry:
        """The client's buckets, cached from now on."""
        entry = self.young.get(client_id)
        if entry is not None:
            return entry
        entry = self._old.get(client_id) or self._create_entry(client_id)
        if len(client_id) <= CLIENT_ID_REMEMBERED_MAX:
            if len(self.young) >= self._young_max:
                # Dropping a generation costs one assignment; evicting entry by entry would cost every cache hit a
                # write.
                self._old, self.young = self.young, {}
            self.young[client_id] = entry
        return entry

    def clients(self) -> dict[ClientId, Entry]:
        """Every cached client."""
        return self._old | self.young

    def _create_entry(self, client_id: ClientId) -> Entry:
        if not isinstance(client_id, str | bytes):
            raise Invalid(f"a client id is text or bytes, not {client_id!r}")
        # Lone surrogates come from headers that are not UTF-8; they identify a client as well as other text.
        client = client_id.encode("utf-8", "surrogatepass") if isinstance(client_id, str) else client_id
        weight = 1.0 if self._weight_of is None else self._weight_of(client_id)
        # Steps are divided by the weight.
        if not 0 < weight < float("inf"):
            raise Invalid(f"the weight of a client must be more than 0, not {weight}")
        main = self.main.of(client)
        return main, main + self.next.of(client), weight


def _seed(now_ms: float, window_ms: int) -> int:
    return int(now_ms) // window_ms * window_ms
