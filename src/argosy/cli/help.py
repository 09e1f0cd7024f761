"""`argosy help` and `argosy version`, which users of other programs expect."""

import click
from click.exceptions import NoSuchCommand
from click.shell_completion import CompletionItem

from argosy import __version__
from argosy.cli.commands import Command


def _complete_command(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The commands of the group that the preceding words name."""
    try:
        context = _context_of(ctx, ctx.params.get(param.name or "") or ())
    except NoSuchCommand:
        return []
    group = context.command
    names = group.list_commands(context) if isinstance(group, click.Group) else []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command(cls=Command)
@click.argument("command", nargs=-1, shell_complete=_complete_command)
@click.option("--man", is_flag=True, help="Print the manual page of all commands, for man.")
@click.pass_context
def help(ctx: click.Context, command: tuple[str, ...], man: bool) -> None:
    """Show the help of a command."""
    if man:
        from argosy.cli.manual import manual_page

        click.echo(manual_page(), nl=False)
        return
    context = _context_of(ctx, command)
    click.echo(context.get_help())


@click.command(cls=Command)
def version() -> None:
    """Show the version."""
    click.echo(f"argosy {__version__}")


def _context_of(ctx: click.Context, words: tuple[str, ...]) -> click.Context:
    """The context of the command that the words name, as if it had been called."""
    context = ctx.find_root()
    for word in words:
        group = context.command
        child = group.get_command(context, word) if isinstance(group, click.Group) else None
        if child is None:
            names = group.list_commands(context) if isinstance(group, click.Group) else []
            raise NoSuchCommand(word, possibilities=names, ctx=context)
        context = child.context_class(child, parent=context, info_name=word, **child.context_settings)
    return context
