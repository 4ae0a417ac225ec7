"""``kue up``: the workers of a queue and its dashboard, in one command."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kue.cli.commands.dashboard import DashboardOptions, dashboard_options
from kue.cli.commands.worker import options_of, run, worker
from kue.cli.output.console import EXIT_CODES, print_message
from kue.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    import socket

    from kue.supervisor.options import SupervisorOptions


@click.command(
    epilog=EXIT_CODES,
    # A dashboard keeps running, also when there is nothing left to do.
    params=[
        param for param in worker.params if param.name not in ("burst", "connection")
    ],
)
@dashboard_options
def up(**given: Any) -> int:
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
    names = [name for name in DashboardOptions.__struct_fields__ if name in given]
    site = DashboardOptions(**{name: given.pop(name) for name in names})
    site = dashboard_server.with_token(site)
    options = options_of(**given)
    with dashboard_server.listener_for(site) as listener:
        url = dashboard_server.url(site, listener)
        # Now: workers log before the banner, which repeats the address.
        print_message(f"the dashboard is at {url}")
        if opens:
            dashboard_server.open_browser(url)
        supervise = partial(_up, site=site, listener=listener, url=url)
        return run(options, supervise)


async def _up(
    options: SupervisorOptions,
    *,
    site: DashboardOptions,
    listener: socket.socket,
    url: str,
) -> int:
    """Run both, stop both when one ends, and return its exit code."""
    from kue.cli.commands.dashboard_process import DashboardProcess, DashboardRequest

    request = DashboardRequest(
        options.target, site, options.log_format, options.log_level
    )
    dashboard = DashboardProcess(request, listener)
    supervisor = Supervisor(options, facts=[("dashboard", url)])
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
