"""Dependencies: when a job is done, each job that runs after it continues, or fails with it.

The rows that list the dependents are deleted only afterwards, so a crash in between repeats the step.
"""

from msgspec.structs import replace

from argosy.jobs import keys
from argosy.jobs.model import AFTER_FAILED, JobStatus
from argosy.jobs.shard.completion import cancel_dependencies, fail
from argosy.jobs.shard.core import READS_MAX, Core
from argosy.jobs.shard.job_reader import StoredJob, read
from argosy.jobs.shard.limit_chain import begin
from argosy.jobs.shard.queue_state import JobKey
from argosy.jobs.shard.rows import decode_state
from argosy.jobs.shard.txn import ShardTxn

DEPENDENCIES_PER_TICK_MAX = 100  # finished jobs handled in one tick


async def settle_dependents(core: Core) -> None:
    """Handles the dependents of finished jobs."""
    for ended in list(core.queues.ended)[:DEPENDENCIES_PER_TICK_MAX]:
        await settle_dependents_of(core, ended)


async def settle_dependents_of(core: Core, ended: JobKey) -> None:
    """Handles all dependents of one job, if it is done."""
    if ended not in core.queues.ended:
        return
    tenant, before = ended
    row = await core.store.get(keys.key(keys.DONE, tenant, before))
    has_succeeded = row is not None and decode_state(row).status == JobStatus.SUCCEEDED
    if row is None and await core.store.get(keys.key(keys.LIVE, tenant, before)) is not None:
        core.queues.ended.pop(ended, None)  # it was restarted: the dependents wait on
        return
    for job in list(core.queues.waiters.get(ended, ())):
        await _settle_dependent(core, (tenant, job), before, has_succeeded=has_succeeded)
    if ended not in core.queues.waiters:
        core.queues.ended.pop(ended, None)


async def _settle_dependent(core: Core, waiting: JobKey, before: str, *, has_succeeded: bool) -> None:
    for _ in range(READS_MAX):
        with core.changes.track([waiting]) as changed:
            known = await read(core, *waiting)
            if changed:
                continue
            if known is None or before not in known.state.waiting_for:
                return  # cancelled meanwhile
            with core.begin_txn() as txn:
                _on_dependency_done(txn, known, before, has_succeeded=has_succeeded)
        await core.commit(txn)
        return


def _on_dependency_done(txn: ShardTxn, known: StoredJob, before: str, *, has_succeeded: bool) -> None:
    job, state = known.job, known.state
    if not has_succeeded:
        cancel_dependencies(txn, job, state)
        fail(txn, job, known.index_key, state, AFTER_FAILED)
        return
    left = tuple(each for each in state.waiting_for if each != before)
    cancel_dependencies(txn, job, replace(state, waiting_for=(before,)))
    state = replace(state, waiting_for=left)
    txn.put_state(job.tenant, job.id, known.index_key, state)
    if not left:
        begin(txn, job, state)
