"""`argosy completion`: the script that teaches a shell to complete our commands."""

import click

COMPLETE_VARIABLE = "_ARGOSY_COMPLETE"      # what the script sets when it asks us; click spells it so


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  argosy completion bash > ~/.local/share/bash-completion/completions/argosy
    zsh:   argosy completion zsh > "${fpath[1]}/_argosy"
    fish:  argosy completion fish > ~/.config/fish/completions/argosy.fish
    """
    from click.shell_completion import get_completion_class

    from argosy.cli.root import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "argosy", COMPLETE_VARIABLE).source())
