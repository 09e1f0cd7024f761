"""`argosy completion`: completion scripts for shells."""

import click
from click.shell_completion import CompletionItem

from argosy.cli.commands import Command

COMPLETE_VARIABLE = "_ARGOSY_COMPLETE"  # set by the script when it calls argosy; click defines the name


def complete_path(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Lets the shell complete paths."""
    # The shell knows how to complete paths, including `~`; listing them here would be slower and worse.
    return [CompletionItem(incomplete, type="file")]


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    The shell then completes commands, options, their values and paths. Install it once, and start a new shell:

    \b
    bash:  argosy completion bash > ~/.local/share/bash-completion/completions/argosy
           (without the package bash-completion: argosy completion bash >> ~/.bashrc)
    zsh:   argosy completion zsh > "${fpath[1]}/_argosy"
    fish:  argosy completion fish > ~/.config/fish/completions/argosy.fish
    """
    from click.shell_completion import get_completion_class

    from argosy.cli.root import cli

    # Click generates the script; only the name of the variable and of the program are ours.
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "argosy", COMPLETE_VARIABLE).source())
