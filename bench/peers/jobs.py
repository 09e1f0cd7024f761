"""Peers of the job broker: arq, Celery, Dramatiq and RQ, each as a queue of the race."""

import asyncio
from pathlib import Path

from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench
from argosy.bench.jobs.queue_race import RacingQueue
from bench.peers import environment

PROGRAM = "bench.peers.job_queues"


async def find_queues(bench: Bench, url: str, directory: Path) -> dict[str, RacingQueue]:
    """The queues that are installed; the notes have the reasons for the others."""
    bench.progress("installing the peers")
    bench.notes.append("procrastinate: not measured, it needs PostgreSQL, which the environment does not have")
    try:
        python = await asyncio.to_thread(environment.ensure_environment)
        versions = await asyncio.to_thread(environment.versions, python)
    except ArgosyError as error:
        bench.notes.append(f"{', '.join(environment.NAMES)}: not measured, {error}")
        return {}
    bench.details["peers"] = versions
    for name in environment.NAMES:
        if name not in versions:
            bench.notes.append(f"{name}: not measured, it is not in the environment of the peers")
    variables = environment.process_environment()
    return {name: RacingQueue(name, str(python), PROGRAM, url, variables, directory) for name in versions}
