"""Checks a command line against the tree of commands without running it: the commands and the options exist."""

import re
import shlex

import click

from argosy.cli.root import cli

OPTION = re.compile(r"--?[A-Za-z][\w-]*")


def check_command(text: str) -> None:
    """Raise AssertionError unless `argosy …` names an existing command with existing options."""
    words = shlex.split(text.partition(" | ")[0], comments=True)  # another program reads its output
    while "=" in words[0]:
        words.pop(0)
    assert words.pop(0) == "argosy", text
    command: click.Command = cli
    context = click.Context(cli, info_name="argosy")
    options = _options(command, context)
    for word in words:
        if isinstance(command, click.Group) and not word.startswith("-"):
            alternatives = word.split("|")  # `argosy serve|up`
            found = [command.get_command(context, each) for each in alternatives]
            assert all(found), f"{text!r}: {command.name} has no command {word!r}"
            command = found[0] or command
            context = click.Context(command, parent=context, info_name=word)
            options |= _options(command, context)
        elif OPTION.match(word):
            name = word.partition("=")[0]
            assert name in options, f"{text!r}: {context.command_path} has no option {name}"


def _options(command: click.Command, context: click.Context) -> set[str]:
    found = {name for each in command.get_params(context) for name in (*each.opts, *each.secondary_opts)}
    short = {f"-{a[1]}" for a in found if len(a) == 2}
    return found | short
