"""`argosy job`: enqueues, lists, watches and controls jobs."""

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound
from argosy.cli.commands import Group, Seconds
from argosy.cli.job_client import BrokerOptions, broker_options, format_time, parse_json, parse_payload
from argosy.cli.job_schedule import schedule
from argosy.cli.output import print_json, print_table, status

if TYPE_CHECKING:
    from argosy.jobs import JobInfo, JobsClient, NewJob


STATUSES = ("scheduled", "running", "succeeded", "failed", "cancelled")
POLL_S = 0.25  # between two reads of a watched job
LINES_MAX = 1_000_000  # payloads of one `enqueue --lines`
FOUND_MAX = 1_000
RETRIES_MAX = 1_000_000


@click.group(cls=Group)
def job() -> None:
    """Manage jobs."""


job.add_command(schedule)


@job.command()
@click.argument("group")
@click.argument("payload", required=False)
@click.option("--lines", is_flag=True, help="Enqueue one job per line of standard input, which is its JSON payload.")
@click.option(
    "--id", "id", default="", show_default=False, help="Id of the job; rejected if it exists. By default generated."
)
@click.option("--priority", type=click.IntRange(0, 99), metavar="N", default=50, help="Priority; 0 is the highest.")
@click.option("--delay", "delay_s", type=Seconds(0), default=0.0, help="Seconds until the job may start.")
@click.option(
    "--retries",
    type=click.IntRange(0, RETRIES_MAX),
    metavar="N",
    default=0,
    help="Number of retries if an attempt fails.",
)
@click.option(
    "--retry-interval",
    "interval_s",
    type=Seconds(0),
    default=1.0,
    help="Seconds until the first retry; doubles with each one.",
)
@click.option(
    "--metadata", "-m", "metadata", multiple=True, metavar="KEY=VALUE", help="Metadata to find the job by; repeatable."
)
@click.option(
    "--unique-key",
    default="",
    show_default=False,
    help="Allow one unfinished job per key; a second one returns the id of the first.",
)
@click.option("--after", multiple=True, metavar="ID", help="Job that must succeed first; repeatable.")
@click.option("--wait", "wait_s", type=Seconds(0), help="Seconds to wait for the result.")
@broker_options
def enqueue(
    broker: BrokerOptions,
    group: str,
    payload: str | None,
    lines: bool,
    wait_s: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue a job for the workers of GROUP. PAYLOAD is JSON; `-` reads it from standard input.

    The job is durable when the command returns.
    """
    if lines and (payload is not None or wait_s is not None or options["id"]):
        raise Invalid("--lines reads payloads from standard input and excludes PAYLOAD, --id and --wait")
    payloads = _read_lines() if lines else [parse_payload(payload)]

    async def enqueue_all(client: "JobsClient") -> tuple[list[str | ArgosyError], Any]:
        jobs = [_new_job(client, group, each, options) for each in payloads]
        answers = await client.enqueue_many(jobs)
        ids = [answer if isinstance(answer, ArgosyError) else answer.id for answer in answers]
        if wait_s is None or isinstance(ids[0], ArgosyError):
            return ids, None
        return ids, await _wait_result(client, ids[0], wait_s, as_json=as_json)

    # Accepted jobs are printed even if others were rejected: they are durable, and the user needs their ids.
    ids, result = broker.run(enqueue_all, doing="enqueueing" if wait_s is None else None)
    rejected = [each for each in ids if isinstance(each, ArgosyError)]
    if rejected and len(ids) == 1:
        raise rejected[0]
    enqueued = [each for each in ids if not isinstance(each, ArgosyError)]
    _print_enqueued(enqueued, result, is_waited=wait_s is not None, as_json=as_json)
    _fail_if_any(rejected, len(ids))


async def _wait_result(client: "JobsClient", id: str, wait_s: float, *, as_json: bool) -> Any:
    """Waits for the result. The id is printed in any case, because an interrupted wait leaves the job enqueued."""
    if not as_json:
        click.echo(f"enqueued job {id}", err=True)
    try:
        with status("waiting for the result"):
            return await client.result(id, timeout_s=wait_s)
    # After Ctrl-C the job goes on, and with --json its id has not been printed yet.
    except asyncio.CancelledError:
        if as_json:
            print_json({"ids": [id]})
        raise


def _fail_if_any(rejected: Sequence[ArgosyError], count: int) -> None:
    if rejected:
        click.echo(f"{len(rejected)} of {count} jobs rejected; first error:", err=True)
        raise rejected[0]


def _print_enqueued(ids: Sequence[str], result: Any, *, is_waited: bool, as_json: bool) -> None:
    if as_json:
        print_json({"ids": ids, **({"result": plain(result)} if is_waited else {})})
    elif is_waited:
        click.echo(json.dumps(plain(result), ensure_ascii=False))
    else:
        click.echo("\n".join(ids))


@job.command()
@click.argument("id")
@click.option("--attempts", "with_attempts", is_flag=True, help="Show the attempts too.")
@broker_options
def get(broker: BrokerOptions, id: str, with_attempts: bool, as_json: bool) -> None:
    """Show one job."""
    from argosy.jobs.web.bodies import job_to_json

    info = broker.run(lambda client: client.get(id, with_attempts=with_attempts), doing="reading", may_create=False)
    shown = job_to_json(info, with_attempts=with_attempts)
    if as_json:
        print_json(shown)
        return
    attempts = shown.pop("attempts", [])
    rows = [(name, _cell(name, value)) for name, value in shown.items() if value not in (None, "", [], {})]
    print_table(("field", "value"), rows, empty="")
    if with_attempts:
        columns = ("number", "status", "started_at_ms", "finished_at_ms", "error_code", "data")
        print_table(
            columns, [[_cell(name, each.get(name)) for name in columns] for each in attempts], empty="no attempts found"
        )


@job.command("list")
@click.option("--status", "status_name", type=click.Choice(STATUSES), help="Only jobs with this status.")
@click.option("--metadata", "-m", "metadata", metavar="KEY=VALUE", help="Only jobs with this metadata.")
@click.option("--dead", is_flag=True, help="Only dead-lettered jobs, which have used up their retries.")
@click.option(
    "--after",
    default="",
    show_default=False,
    metavar="ID",
    help="Continue after this job, the last one of the previous page.",
)
@click.option("--limit", type=click.IntRange(1, FOUND_MAX), metavar="N", default=50, help="Maximum number of jobs.")
@broker_options
def list_jobs(
    broker: BrokerOptions,
    status_name: str | None,
    metadata: str | None,
    dead: bool,
    after: str,
    limit: int,
    as_json: bool,
) -> None:
    """List jobs, most recently changed first."""
    from argosy.jobs.model import JobStatus
    from argosy.jobs.web.bodies import job_to_json

    found = broker.run(
        lambda client: client.find(
            status=JobStatus[status_name.upper()] if status_name else None,
            metadata=_pair(metadata) if metadata else None,
            is_dead=dead,
            after=after,
            limit=limit,
        ),
        doing="reading",
        may_create=False,
    )
    if as_json:
        print_json([job_to_json(info) for info in found])
        return
    rows = [
        (info.id, info.task_group, info.status.name.lower(), info.attempt, format_time(info.changed_at_ms))
        for info in found
    ]
    print_table(("job", "group", "status", "attempt", "changed"), rows, empty="no jobs found")


@job.command()
@click.argument("id")
@click.option("--wait", "wait_s", type=Seconds(0), default=0.0, help="Seconds to wait for it.")
@broker_options
def result(broker: BrokerOptions, id: str, wait_s: float, as_json: bool) -> None:
    """Print the result of a job as JSON. A job that failed, was cancelled or is not done yet is an error."""
    found = broker.run(lambda client: client.result(id, timeout_s=wait_s), doing=f"waiting for {id}", may_create=False)
    value = plain(found)
    if as_json:
        print_json({"id": id, "result": value})
    else:
        click.echo(json.dumps(value, ensure_ascii=False))


def _add_control(name: str, verb: str, doc: str) -> click.Command:
    @job.command(name, help=doc)
    @click.argument("ids", nargs=-1, required=True, metavar="ID…")
    @broker_options
    def command(broker: BrokerOptions, ids: tuple[str, ...], as_json: bool) -> None:
        async def control_one(client: "JobsClient", id: str) -> ArgosyError | None:
            try:
                await getattr(client, name)(id)
            # Of several ids one may be finished already, which must not keep the others from being controlled.
            except (NotFound, Conflict) as error:
                if len(ids) == 1:
                    raise
                return error
            return None

        async def control_all(client: "JobsClient") -> "dict[str, ArgosyError | None]":
            return {id: await control_one(client, id) for id in ids}

        _print_controlled(broker.run(control_all, doing="sending", may_create=False), verb, as_json=as_json)

    return command


def _print_controlled(results: "dict[str, ArgosyError | None]", verb: str, *, as_json: bool) -> None:
    """Prints the outcome of every job, because one rejected job does not stop the others."""
    done = [id for id, error in results.items() if error is None]
    rejected = {id: str(error) for id, error in results.items() if error is not None}
    if as_json:
        print_json({"ids": done, **({"rejected": rejected} if rejected else {})})
    else:
        for id in done:
            click.echo(f"{verb} job {id}")
        for error in rejected.values():
            click.echo(f"error: {error}", err=True)
    if rejected:
        click.get_current_context().exit(1)


cancel = _add_control(
    "cancel", "cancelled", "Cancel jobs. Waiting jobs are cancelled at once, running ones are signalled to stop."
)
restart = _add_control("restart", "restarted", "Restart failed or cancelled jobs.")
expedite = _add_control("expedite", "expedited", "Start scheduled jobs now.")
delete = _add_control("delete", "deleted", "Delete finished jobs.")


@job.command()
@click.argument("ids", nargs=-1, metavar="[ID…]")
@click.option(
    "--limit",
    type=click.IntRange(1, FOUND_MAX),
    metavar="N",
    default=100,
    help="Maximum number of jobs, if no ID is given.",
)
@broker_options
def requeue(broker: BrokerOptions, ids: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Requeue dead-lettered jobs.

    These have used up their retries. Without an ID the most recent ones are requeued.
    """
    results = broker.run(lambda client: client.requeue(ids, limit=limit), doing="requeueing", may_create=False)
    rows = [(id, "rejected" if error else "requeued", str(error) if error else "") for id, error in results.items()]
    if as_json:
        print_json([{"id": id, "error": error or None} for id, _, error in rows])
    else:
        print_table(("job", "state", "error"), rows, empty="no dead-lettered jobs found")
    _fail_if_any([error for error in results.values() if error is not None], len(results))


@job.command()
@click.argument("id")
@click.option("--timeout", "timeout_s", type=Seconds(0), default=3600.0, help="Seconds after which the command fails.")
@broker_options
def watch(broker: BrokerOptions, id: str, timeout_s: float, as_json: bool) -> None:
    """Watch a job until it is done. Prints one line for each change of status, attempt or progress."""

    def print_change(info: "JobInfo") -> None:
        fields = {"status": info.status.name.lower(), "attempt": info.attempt, "progress": plain(info.progress)}
        if as_json:
            click.echo(json.dumps({"id": id, **fields}, ensure_ascii=False))
        else:
            shown = f"  {json.dumps(fields['progress'], ensure_ascii=False)}" if info.progress is not None else ""
            click.echo(f"{format_time(info.changed_at_ms)}  {fields['status']}  attempt {info.attempt}{shown}")

    broker.run(lambda client: _watch(client, id, timeout_s, print_change), may_create=False)


async def _watch(client: "JobsClient", id: str, timeout_s: float, on_change: "Callable[[JobInfo], None]") -> None:
    from argosy.jobs import NotDone

    seen: tuple[object, ...] = ()
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                info = await client.get(id)
                now = (info.status, info.attempt, info.progress_bytes)
                # The broker has no watch for a single job; only changes are printed.
                if now != seen:
                    on_change(info)
                    seen = now
                if info.status.is_final:
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise NotDone(f"job {id} not done: timed out after {timeout_s:g} s") from None


def _new_job(client: "JobsClient", group: str, payload: Any, options: dict[str, Any]) -> "NewJob":
    from argosy.jobs import RetryPolicy, new_job

    # 0 and not the present time: without a delay the broker's clock decides.
    start_at_ms = int((client.router.clock.wall() + options["delay_s"]) * 1000) if options["delay_s"] else 0
    first_ms = int(options["interval_s"] * 1000)
    # At most an hour between two retries.
    retry = RetryPolicy(options["retries"], first_ms, 3_600_000, True) if options["retries"] else None
    return new_job(
        group,
        payload,
        tenant=client.tenant,
        id=options["id"],
        priority=options["priority"],
        start_at_ms=start_at_ms,
        retry=retry,
        metadata=dict(_pair(text) for text in options["metadata"]),
        unique_key=options["unique_key"],
        after=tuple(options["after"]),
    )


def _read_lines() -> list[Any]:
    found = [parse_json(line, f"line {at}") for at, line in enumerate(sys.stdin, start=1) if line.strip()]
    if len(found) > LINES_MAX:
        raise Invalid(f"too many payloads: {len(found)}; the limit is {LINES_MAX}")
    if not found:
        raise Invalid("no payloads on standard input: expected one JSON value per line")
    return found


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise Invalid(f"invalid metadata {text!r}: expected KEY=VALUE")
    return key, value


def plain(value: Any) -> Any:
    """The value as plain JSON types."""
    import msgspec

    # Through msgspec, which encodes more types than the json module.
    return msgspec.json.decode(msgspec.json.encode(value))


def _cell(name: str, value: object) -> object:
    if name.endswith("_at_ms") and isinstance(value, int):
        return format_time(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
