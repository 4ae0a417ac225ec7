"""Confirmation before something is removed permanently."""

from __future__ import annotations

import sys

import click

from kue.cli.output.text import visible

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def confirm(question: str, *, yes: bool) -> None:
    """
    Ask on a terminal; elsewhere nobody could answer, so go ahead.

    Raises:
        click.Abort: The answer was no.
    """
    if not yes and sys.stdin.isatty():
        click.confirm(f"kue: {visible(question)}", abort=True, err=True)
