"""
Kue on the event bus.

`KueVerticle` puts a queue there: its events at the addresses of `Addresses`, and its
`JobService`, which `JobServiceProxy` asks from any node.  `on` and `on_job` listen.
`KueWorker` runs jobs as a verticle; `CallbackKue` is the queue for callers who want
callbacks.
"""

from kue.service.addresses import Addresses
from kue.service.binding import Call, Proxy, authorised, bind, only
from kue.service.callback import CallbackKue
from kue.service.jobs import JobService, JobServiceProxy, register
from kue.service.listening import on, on_job
from kue.service.relay import EventRelay
from kue.service.verticles import KueVerticle, KueWorker

__all__ = [
    "Addresses",
    "Call",
    "CallbackKue",
    "EventRelay",
    "JobService",
    "JobServiceProxy",
    "KueVerticle",
    "KueWorker",
    "Proxy",
    "authorised",
    "bind",
    "on",
    "on_job",
    "only",
    "register",
]
