"""The numbers of the shards' store, declared once, with the reason for each."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting


@dataclass(frozen=True)
class ShardStoreSettings:
    """Where shards keep their rows, and how firmly."""

    SECTION: ClassVar[str] = "jobs_store"

    fsync: str = setting(
        "always",
        choices=("always", "never"),
        doc="file:// only: always answers when the disk has the rows, never when the operating system has them, "
        "which is faster and loses the last half minute if the machine loses power",
    )
    durable_s_max: float = setting(
        10.0, min=0.1, doc="a shard whose rows are not durable after this long is given up and opened anew"
    )
    read_s_max: float = setting(10.0, min=0.1, doc="the longest wait for a row")
    open_s_max: float = setting(60.0, min=0.1, doc="the longest wait for a shard to open: it replays its last writes")
    cache_bytes: int = setting(64 << 20, min=0, doc="blocks kept in memory, by all shards of the process together")
    l0_bytes: int = setting(
        32 << 20,
        min=1 << 20,
        doc="rows gathered in memory before they become a table; more is faster to write, "
        "and slower to open after a crash",
    )
    unflushed_bytes_max: int = setting(256 << 20, min=8 << 20, doc="rows of one shard in memory; above it writes wait")
    wal_retention_s: float = setting(60.0, min=1, doc="how long a write-ahead file stays after its rows are in a table")
    s3_endpoint: str = setting(
        "", doc="an S3 other than Amazon's: http[s]://HOST:PORT; otherwise AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL"
    )
    s3_region: str = setting("", doc="otherwise AWS_REGION, otherwise us-east-1")
    s3_access_key_id: str = setting("", doc="otherwise AWS_ACCESS_KEY_ID, otherwise the machine's role")
    s3_secret_access_key: str = setting("", doc="otherwise AWS_SECRET_ACCESS_KEY", secret=True)
    s3_session_token: str = setting("", doc="otherwise AWS_SESSION_TOKEN", secret=True)
    s3_probe: str = setting(
        "always",
        choices=("always", "never"),
        doc="always refuses an S3 that ignores If-None-Match, on which two writers would overwrite each other; never "
        "trusts it",
    )

    def check(self) -> Iterable[str]:
        if self.unflushed_bytes_max < 2 * self.l0_bytes:
            yield f"unflushed_bytes_max must be at least twice l0_bytes ({self.l0_bytes}), or every table stops writing"
        if bool(self.s3_access_key_id) != bool(self.s3_secret_access_key):
            yield "s3_access_key_id and s3_secret_access_key belong together: set both or neither"
