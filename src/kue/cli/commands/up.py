"""``kue up``: the workers of a queue and its dashboard, in one command."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kue.cli.commands.dashboard_options import site_of, site_options
from kue.cli.commands.worker import options_of, run, worker
from kue.cli.output.terminal import EXIT_CODES, say
from kue.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    import socket

    from kue.cli.commands.dashboard_options import DashboardOptions
    from kue.cli.commands.dashboard_process import DashboardProcess
    from kue.supervisor.options import SupervisorOptions

#: What makes no sense beside a dashboard, which is to stay.
LEFT_OUT = frozenset({"burst"})


@click.command(
    epilog=EXIT_CODES,
    params=[param for param in worker.params if param.name not in LEFT_OUT],
)
@site_options
@click.pass_context
def up(context: click.Context, /, **given: Any) -> None:
    """
    Run the jobs of the queue TARGET and serve its dashboard.

    The same as kue worker and kue dashboard in two terminals, with the options of both:

    \b
      kue up app:q
      kue up app:q --reload --open       while you write it
      kue up app:q --processes 4 --port 8080

    TARGET is module:attribute, as for kue worker.  The dashboard is a process of its
    own.  When it dies it is started anew, as worker processes are; when it cannot be
    started, or the code cannot be worked on, the command ends with what is wrong.

    Ctrl-C and SIGTERM let jobs end within the grace, which the dashboard shows, and end
    the dashboard after them.
    """
    from kue.cli.commands import dashboard_server

    opens = given.pop("opens")
    site = dashboard_server.with_token(site_of(given))
    options = options_of(**given)
    with dashboard_server.listener_for(site) as listener:
        url = dashboard_server.url(site, listener)
        # At once: what workers log comes before the banner, which has it again.
        say(f"the dashboard is at {url}")
        if opens:
            dashboard_server.open_browser(url)
        supervise = partial(_up, site=site, listener=listener, url=url)
        context.exit(run(options, supervise))


async def _up(
    options: SupervisorOptions,
    *,
    site: DashboardOptions,
    listener: socket.socket,
    url: str,
) -> int:
    from kue.cli.commands.dashboard_process import DashboardProcess, DashboardRequest

    orders = DashboardRequest(
        options.target, site, options.log_format, options.log_level
    )
    supervisor = Supervisor(options, facts=[("dashboard", url)])
    return await _both(supervisor, DashboardProcess(orders, listener))


async def _both(supervisor: Supervisor, dashboard: DashboardProcess) -> int:
    """Return the exit code of whichever ended first, once both have."""
    working = asyncio.create_task(supervisor.run(), name="kue workers")
    keeping = asyncio.create_task(dashboard.keep(), name="kue dashboard")
    await asyncio.wait([working, keeping], return_when=asyncio.FIRST_COMPLETED)
    try:
        if not working.done():
            supervisor.stop()
            await working
            return keeping.result()
        return working.result()
    finally:
        await dashboard.end()
        keeping.cancel()
        await asyncio.wait([keeping])
