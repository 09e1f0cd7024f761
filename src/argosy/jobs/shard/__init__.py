"""The shard: the queue is in memory, the truth is in rows, and every change is one step of both.

Reading order: `queue`, `slots`, `leases` (what is in memory), `memory`, `step` (how both change), `chain` (limits),
`core` (commit), then the calls: `enqueueing`, `leasing`, `reporting`, `controlling`, `limiting`, `refreshing`,
`settling`, `scheduling`, `retention`, `finding`, `importing`; then `opening`, `ticking`, `shard`, `service`; `checking`
audits it all.
"""

from argosy.jobs.shard.audit import audit
from argosy.jobs.shard.options import ShardOptions
from argosy.jobs.shard.shard import Shard, ShardService

__all__ = ["Shard", "ShardOptions", "ShardService", "audit"]
