"""``kue up``: the workers of a queue and its dashboard, in one command."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kue.cli.commands.dashboard_options import dashboard_options, pop_dashboard_options
from kue.cli.commands.worker import options_of, run, worker
from kue.cli.output.console import EXIT_CODES, print_message
from kue.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    import socket

    from kue.cli.commands.dashboard_options import DashboardOptions
    from kue.cli.commands.dashboard_process import DashboardProcess
    from kue.supervisor.options import SupervisorOptions

#: An option that makes no sense with a dashboard, which keeps running.
LEFT_OUT = frozenset({"burst"})


@click.command(
    epilog=EXIT_CODES,
    params=[param for param in worker.params if param.name not in LEFT_OUT],
)
@dashboard_options
@click.pass_context
def up(context: click.Context, /, **given: Any) -> None:
    """
    Run the jobs of the queue TARGET and serve its dashboard.

    The same as kue worker and kue dashboard in two terminals, with the options of both:

    \b
      kue up app:q
      kue up app:q --reload --open       while you write it
      kue up app:q --processes 4 --port 8080

    TARGET is module:attribute, as for kue worker.  The dashboard is a separate process.
    It is restarted when it dies, as worker processes are.  When it or the workers
    cannot be started, the command reports why and exits.

    Ctrl-C and SIGTERM give jobs the grace period to end, which the dashboard shows, and
    then stop the dashboard.
    """
    from kue.cli.commands import dashboard_server

    opens = given.pop("opens")
    dashboard = dashboard_server.with_token(pop_dashboard_options(given))
    options = options_of(**given)
    with dashboard_server.listener_for(dashboard) as listener:
        url = dashboard_server.url(dashboard, listener)
        # Now: workers log before the banner, which repeats the address.
        print_message(f"the dashboard is at {url}")
        if opens:
            dashboard_server.open_browser(url)
        supervise = partial(_up, dashboard=dashboard, listener=listener, url=url)
        context.exit(run(options, supervise))


async def _up(
    options: SupervisorOptions,
    *,
    dashboard: DashboardOptions,
    listener: socket.socket,
    url: str,
) -> int:
    from kue.cli.commands.dashboard_process import DashboardProcess, DashboardRequest

    request = DashboardRequest(
        options.target, dashboard, options.log_format, options.log_level
    )
    supervisor = Supervisor(options, facts=[("dashboard", url)])
    return await _both(supervisor, DashboardProcess(request, listener))


async def _both(supervisor: Supervisor, dashboard: DashboardProcess) -> int:
    """Run both, stop both when one ends, and return its exit code."""
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
