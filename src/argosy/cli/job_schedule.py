"""`argosy job schedule`: jobs that come round by themselves."""

import click

from argosy.cli.commands import Group
from argosy.cli.job_client import Reach, reach_options
from argosy.cli.job_format import parsed_payload, told_time
from argosy.cli.output import print_json, print_table


@click.group(cls=Group)
def schedule() -> None:
    """Jobs that come round by themselves, as cron says."""


@schedule.command()
@click.argument("name")
@click.argument("cron")
@click.argument("group")
@click.argument("payload", required=False)
@click.option("--timezone", default="UTC", help="Whose clock CRON is about, such as Europe/Rome.")
@click.option("--priority", type=click.IntRange(0, 99), default=50, help="0 goes first.")
@click.option("--paused", is_flag=True, help="Keep it, and let nothing come of it yet.")
@reach_options
def put(
    reach: Reach,
    name: str,
    cron: str,
    group: str,
    payload: str | None,
    timezone: str,
    priority: int,
    paused: bool,
    as_json: bool,
) -> None:
    """Each time CRON comes round, put a job for the workers of GROUP; a schedule of that NAME is replaced.

    CRON has five fields (minute, hour, day, month, weekday), as in "0 3 * * *". PAYLOAD is JSON; `-` reads it from
    standard input.
    """
    value = parsed_payload(payload)
    reach.ask(
        lambda client: client.put_schedule(
            name, cron, group, value, timezone=timezone, is_paused=paused, priority=priority
        )
    )
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"{name} {'is kept, paused' if paused else 'comes round'}")


@schedule.command("list")
@reach_options
def list_schedules(reach: Reach, as_json: bool) -> None:
    """List schedules, and when each comes round next."""
    found = reach.ask(lambda client: client.schedules(), doing="looking", may_create=False)
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
        comes = "paused" if each.is_paused else told_time(each.next_at)
        rows.append((each.name, each.cron, each.timezone, each.job.task_group, comes))
    print_table(("schedule", "cron", "timezone", "group", "next"), rows, empty="no schedules")


@schedule.command()
@click.argument("name")
@reach_options
def delete(reach: Reach, name: str, as_json: bool) -> None:
    """Forget a schedule; jobs that came of it stay."""
    reach.ask(lambda client: client.delete_schedule(name), doing="asking", may_create=False)
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"{name} is forgotten")
