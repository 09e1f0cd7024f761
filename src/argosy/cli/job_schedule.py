"""`argosy job schedule`: cron schedules that enqueue jobs."""

import click

from argosy.cli.commands import Group
from argosy.cli.job_client import BrokerOptions, broker_options, format_time, parse_payload
from argosy.cli.output import print_json, print_table


@click.group(cls=Group)
def schedule() -> None:
    """Manage cron schedules."""


@schedule.command()
@click.argument("name")
@click.argument("cron")
@click.argument("group")
@click.argument("payload", required=False)
@click.option("--timezone", default="UTC", help="Time zone of CRON, such as Europe/Rome.")
@click.option(
    "--priority", type=click.IntRange(0, 99), metavar="N", default=50, help="Priority of the jobs; 0 is the highest."
)
@click.option("--paused", is_flag=True, help="Create the schedule paused.")
@broker_options
def put(
    broker: BrokerOptions,
    name: str,
    cron: str,
    group: str,
    payload: str | None,
    timezone: str,
    priority: int,
    paused: bool,
    as_json: bool,
) -> None:
    """Create or replace the schedule NAME.

    It enqueues a job for the workers of GROUP whenever CRON is due. CRON has five fields (minute, hour, day, month,
    weekday), as in "0 3 * * *". PAYLOAD is JSON; `-` reads it from standard input.
    """
    value = parse_payload(payload)
    broker.run(
        lambda client: client.put_schedule(
            name, cron, group, value, timezone=timezone, is_paused=paused, priority=priority
        )
    )
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"created schedule {name}{' (paused)' if paused else ''}")


@schedule.command("list")
@broker_options
def list_schedules(broker: BrokerOptions, as_json: bool) -> None:
    """List schedules and the time each is due next."""
    found = broker.run(lambda client: client.schedules(), doing="reading", may_create=False)
    if as_json:
        print_json(
            [
                {
                    "name": each.name,
                    "cron": each.cron,
                    "timezone": each.timezone,
                    "task_group": each.job.task_group,
                    "priority": each.job.priority,
                    "next_at_ms": each.next_at,
                    "is_paused": each.is_paused,
                }
                for each in found
            ]
        )
        return
    rows = []
    for each in found:
        due = "paused" if each.is_paused else format_time(each.next_at)
        rows.append((each.name, each.cron, each.timezone, each.job.task_group, due))
    print_table(("schedule", "cron", "timezone", "group", "next"), rows, empty="no schedules found")


@schedule.command()
@click.argument("name")
@broker_options
def delete(broker: BrokerOptions, name: str, as_json: bool) -> None:
    """Delete a schedule; the jobs it has enqueued stay."""
    broker.run(lambda client: client.delete_schedule(name), doing="deleting", may_create=False)
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"deleted schedule {name}")
