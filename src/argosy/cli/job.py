"""`argosy job`: put jobs, look at them, and steer them."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound
from argosy.cli.commands import Group
from argosy.cli.job_client import Reach, reach_options
from argosy.cli.job_format import parsed, parsed_payload, told_time
from argosy.cli.job_schedule import schedule
from argosy.cli.output import print_json, print_table, status
from argosy.cli.param_types import Seconds

if TYPE_CHECKING:
    from argosy.jobs.sdk import JobInfo, JobsClient, NewJob

STATUSES = ("scheduled", "running", "succeeded", "failed", "cancelled")
LOOK_S = 0.25  # how often a job that is watched is looked at
LINES_MAX = 1_000_000  # payloads of one `put --lines`
FOUND_MAX = 1_000
RETRIES_MAX = 1_000_000


@click.group(cls=Group)
def job() -> None:
    """Durable jobs: put them, look at them, steer them."""


job.add_command(schedule)


@job.command()
@click.argument("group")
@click.argument("payload", required=False)
@click.option("--lines", is_flag=True, help="Read one JSON payload a line from standard input: many jobs.")
@click.option("--id", "id", default="", help="Its id; one that is taken is refused. By default one is made.")
@click.option("--priority", type=click.IntRange(0, 99), default=50, help="0 goes first.")
@click.option("--delay", "delay_s", type=Seconds(0), default=0.0, help="Seconds until it may begin.")
@click.option("--retries", type=click.IntRange(0, RETRIES_MAX), default=0, help="Further tries if it fails.")
@click.option("--retry-interval", "interval_s", type=Seconds(0), default=1.0, help="Seconds, doubling.")
@click.option("--metadata", "-m", "metadata", multiple=True, metavar="KEY=VALUE", help="To find it by; repeatable.")
@click.option("--unique-key", default="", help="One unfinished job per key: a second put gives the first one's id.")
@click.option("--after", multiple=True, metavar="ID", help="A job that must have succeeded first; repeatable.")
@click.option("--wait", "wait_s", type=Seconds(0), help="Wait so many seconds for its result.")
@reach_options
def put(
    reach: Reach, group: str, payload: str | None, lines: bool, wait_s: float | None, as_json: bool, **wished: Any
) -> None:
    """Put a job for the workers of GROUP. PAYLOAD is JSON; `-` reads it from standard input.

    It is kept for good when the command returns.
    """
    if lines and (payload is not None or wait_s is not None or wished["id"]):
        raise Invalid("--lines takes its payloads from standard input, and goes without --id and --wait")
    payloads = _lines() if lines else [parsed_payload(payload)]

    async def enqueue(client: "JobsClient") -> tuple[list[str | ArgosyError], Any]:
        jobs = [_new_job(client, group, each, wished) for each in payloads]
        answers = await client.enqueue_many(jobs)
        ids = [answer if isinstance(answer, ArgosyError) else answer.id for answer in answers]
        if wait_s is None or isinstance(ids[0], ArgosyError):
            return ids, None
        return ids, await _waited(client, ids[0], wait_s, as_json=as_json)

    ids, result = reach.ask(enqueue, doing="putting" if wait_s is None else None)
    refused = [each for each in ids if isinstance(each, ArgosyError)]
    if refused and len(ids) == 1:
        raise refused[0]
    put_ids = [each for each in ids if not isinstance(each, ArgosyError)]
    _print_put(put_ids, result, is_waited=wait_s is not None, as_json=as_json)
    _fail_if_any(refused, len(ids))


async def _waited(client: "JobsClient", id: str, wait_s: float, *, as_json: bool) -> Any:
    """Its result. Whoever breaks the waiting off has put the job nevertheless, so its id is told in any case."""
    if not as_json:
        click.echo(f"job {id} is put", err=True)
    try:
        with status("waiting for its result"):
            return await client.result(id, timeout_s=wait_s)
    except asyncio.CancelledError:
        if as_json:
            print_json({"ids": [id]})
        raise


def _fail_if_any(refused: Sequence[ArgosyError], count: int) -> None:
    if refused:
        click.echo(f"{len(refused)} of {count} jobs were refused; the first because:", err=True)
        raise refused[0]


def _print_put(ids: Sequence[str], result: Any, *, is_waited: bool, as_json: bool) -> None:
    if as_json:
        print_json({"ids": ids, **({"result": plain(result)} if is_waited else {})})
    elif is_waited:
        click.echo(json.dumps(plain(result), ensure_ascii=False))
    else:
        click.echo("\n".join(ids))


@job.command()
@click.argument("id")
@click.option("--attempts", "with_attempts", is_flag=True, help="Show every try as well.")
@reach_options
def get(reach: Reach, id: str, with_attempts: bool, as_json: bool) -> None:
    """Show one job."""
    from argosy.jobs.web.json_views import job_to_json

    info = reach.ask(lambda client: client.get(id, with_attempts=with_attempts), doing="looking", may_create=False)
    shown = job_to_json(info, with_attempts=with_attempts)
    if as_json:
        print_json(shown)
        return
    attempts = shown.pop("attempts", [])
    rows = [(name, _cell(name, value)) for name, value in shown.items() if value not in (None, "", [], {})]
    print_table(("field", "value"), rows, empty="")
    if with_attempts:
        columns = ("number", "status", "started_at_ms", "finished_at_ms", "error_code", "data")
        print_table(columns, [[_cell(name, each.get(name)) for name in columns] for each in attempts], empty="no tries")


@job.command("list")
@click.option("--status", "status_name", type=click.Choice(STATUSES), help="Only those.")
@click.option("--metadata", "-m", "metadata", metavar="KEY=VALUE", help="Only those with it.")
@click.option("--dead", is_flag=True, help="Only those that have failed for good.")
@click.option("--after", default="", metavar="ID", help="Go on after the job at which the page before ended.")
@click.option("--limit", type=click.IntRange(1, FOUND_MAX), default=50, help="How many.")
@reach_options
def list_jobs(
    reach: Reach, status_name: str | None, metadata: str | None, dead: bool, after: str, limit: int, as_json: bool
) -> None:
    """List jobs, the latest change first."""
    from argosy.jobs.model import JobStatus
    from argosy.jobs.web.json_views import job_to_json

    found = reach.ask(
        lambda client: client.find(
            status=JobStatus[status_name.upper()] if status_name else None,
            metadata=_pair(metadata) if metadata else None,
            is_dead=dead,
            after=after,
            limit=limit,
        ),
        doing="looking",
        may_create=False,
    )
    if as_json:
        print_json([job_to_json(info) for info in found])
        return
    rows = [
        (info.id, info.task_group, info.status.name.lower(), info.attempt, told_time(info.changed_at_ms))
        for info in found
    ]
    print_table(("job", "group", "status", "attempt", "changed"), rows, empty="no such jobs")


@job.command()
@click.argument("id")
@click.option("--wait", "wait_s", type=Seconds(0), default=0.0, help="Seconds to wait for it.")
@reach_options
def result(reach: Reach, id: str, wait_s: float, as_json: bool) -> None:
    """Print a job's result as JSON; a job that failed, was cancelled or is not done yet is an error."""

    found = reach.ask(lambda client: client.result(id, timeout_s=wait_s), doing=f"waiting for {id}", may_create=False)
    value = plain(found)
    if as_json:
        print_json({"id": id, "result": value})
    else:
        click.echo(json.dumps(value, ensure_ascii=False))


def _steering(name: str, said: str, doc: str) -> click.Command:
    @job.command(name, help=doc)
    @click.argument("ids", nargs=-1, required=True, metavar="ID…")
    @reach_options
    def steer(reach: Reach, ids: tuple[str, ...], as_json: bool) -> None:
        async def each(client: "JobsClient", id: str) -> ArgosyError | None:
            try:
                await getattr(client, name)(id)
            except (NotFound, Conflict) as error:
                if len(ids) == 1:
                    raise
                return error
            return None

        async def all_of_them(client: "JobsClient") -> "dict[str, ArgosyError | None]":
            return {id: await each(client, id) for id in ids}

        _print_steered(reach.ask(all_of_them, doing="asking", may_create=False), said, as_json=as_json)

    return steer


def _print_steered(told: "dict[str, ArgosyError | None]", said: str, *, as_json: bool) -> None:
    """A job that is refused does not keep the others from being steered, so all of them are told."""
    done = [id for id, error in told.items() if error is None]
    refused = {id: str(error) for id, error in told.items() if error is not None}
    if as_json:
        print_json({"ids": done, **({"refused": refused} if refused else {})})
    else:
        for id in done:
            click.echo(f"{id} {said}")
        for why in refused.values():
            click.echo(f"error: {why}", err=True)
    if refused:
        click.get_current_context().exit(1)


cancel = _steering("cancel", "is to stop", "Cancel jobs: at once if they wait; a running one is told to stop.")
restart = _steering("restart", "begins anew", "Start jobs anew that have failed or were cancelled.")
expedite = _steering("expedite", "may begin", "Let jobs that wait for their time begin now.")
delete = _steering("delete", "is forgotten", "Forget jobs that are done.")


@job.command()
@click.argument("ids", nargs=-1, metavar="[ID…]")
@click.option("--limit", type=click.IntRange(1, FOUND_MAX), default=100, help="How many, if none is named.")
@reach_options
def requeue(reach: Reach, ids: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Start dead letters anew: jobs that have used up their retries. Without an ID, the latest of them."""
    told = reach.ask(lambda client: client.requeue(ids, limit=limit), doing="asking", may_create=False)
    rows = [(id, "refused" if error else "begins anew", str(error) if error else "") for id, error in told.items()]
    if as_json:
        print_json([{"id": id, "error": why or None} for id, _, why in rows])
    else:
        print_table(("job", "state", "why"), rows, empty="there are no dead letters")
    _fail_if_any([error for error in told.values() if error is not None], len(told))


@job.command()
@click.argument("id")
@click.option("--timeout", "timeout_s", type=Seconds(0), default=3600.0, help="Seconds until it gives up.")
@reach_options
def watch(reach: Reach, id: str, timeout_s: float, as_json: bool) -> None:
    """Follow a job until it is done: a line for each change of its status, try or progress."""

    def tell(info: "JobInfo") -> None:
        told = {"status": info.status.name.lower(), "attempt": info.attempt, "progress": plain(info.progress)}
        if as_json:
            click.echo(json.dumps({"id": id, **told}, ensure_ascii=False))
        else:
            shown = f"  {json.dumps(told['progress'], ensure_ascii=False)}" if info.progress is not None else ""
            click.echo(f"{told_time(info.changed_at_ms)}  {told['status']}  try {info.attempt}{shown}")

    reach.ask(lambda client: _watch(client, id, timeout_s, tell), may_create=False)


async def _watch(client: "JobsClient", id: str, timeout_s: float, tell: "Callable[[JobInfo], None]") -> None:
    from argosy.jobs.sdk import NotDone

    seen: tuple[object, ...] = ()
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                info = await client.get(id)
                now = (info.status, info.attempt, info.progress_bytes)
                if now != seen:
                    tell(info)
                    seen = now
                if info.status.is_final:
                    return
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise NotDone(f"job {id} is not done after {timeout_s:g} s: watch it again") from None


def _new_job(client: "JobsClient", group: str, payload: Any, wished: dict[str, Any]) -> "NewJob":
    from argosy.jobs.sdk import RetryPolicy, new_job

    start_at_ms = int((client.router.clock.wall() + wished["delay_s"]) * 1000) if wished["delay_s"] else 0
    first_ms = int(wished["interval_s"] * 1000)
    retry = RetryPolicy(wished["retries"], first_ms, 3_600_000, True) if wished["retries"] else None
    return new_job(
        group,
        payload,
        tenant=client.tenant,
        id=wished["id"],
        priority=wished["priority"],
        start_at_ms=start_at_ms,
        retry=retry,
        metadata=dict(_pair(text) for text in wished["metadata"]),
        unique_key=wished["unique_key"],
        after=tuple(wished["after"]),
    )


def _lines() -> list[Any]:
    found = [parsed(line, f"line {at}") for at, line in enumerate(sys.stdin, start=1) if line.strip()]
    if len(found) > LINES_MAX:
        raise Invalid(f"one command puts {LINES_MAX} jobs; got {len(found)}")
    if not found:
        raise Invalid("standard input has no payload: one JSON value a line is wanted")
    return found


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise Invalid(f"metadata is written KEY=VALUE; got {text!r}")
    return key, value


def plain(value: Any) -> Any:
    """As JSON can say it."""
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(value))


def _cell(name: str, value: object) -> object:
    if name.endswith("_at_ms") and isinstance(value, int):
        return told_time(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
