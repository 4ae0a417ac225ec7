"""``kue completion``: scripts for shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kue.cli.output.console import EXIT_CODES

#: The variable by which the completion script requests words.
VARIABLE = "_KUE_COMPLETE"


@click.command(epilog=EXIT_CODES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """
    Print the completion script for a shell.

    It completes commands, options, states, types and names of schedules and workers.

    \b
      bash:  kue completion bash > ~/.local/share/bash-completion/completions/kue
      zsh:   kue completion zsh > "${fpath[1]}/_kue"
      fish:  kue completion fish > ~/.config/fish/completions/kue.fish

    Then open a new shell.  Names are completed when the queue answers within half a
    second.
    """
    kind = get_completion_class(shell)
    # click has all three.
    assert kind is not None
    root = context.find_root()
    click.echo(kind(root.command, {}, "kue", VARIABLE).source())
