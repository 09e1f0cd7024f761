"""How much of this machine a publisher may have while it is read."""

from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class SyncSettings:
    """The bounds of reading from publishers."""

    SECTION: ClassVar[str] = "ipni_sync"

    allow_private: bool = setting(
        False, doc="whether publishers may be at private, loopback or link-local addresses; anyone can announce those"
    )
    grace_s: float = setting(10.0, min=0.05, doc="an answer may take this long, however little of it comes")
    rate_bytes_s_min: int = setting(
        64 * KIB, min=1, doc="beyond the grace, an answer must have come at this rate on the whole, or it is given up"
    )
    head_bytes_max: int = setting(16 * KIB, min=KIB, doc="a larger signed head is refused")
    advert_bytes_max: int = setting(256 * KIB, min=KIB, doc="a larger advertisement is refused")
    entries_bytes_max: int = setting(4 * MIB, min=KIB, doc="a larger block of entries is refused, packed or unpacked")
    connections_max: int = setting(128, min=1, doc="connections to publishers at one time")
    connections_per_host_max: int = setting(8, min=1, doc="connections to one publisher's host at one time")
