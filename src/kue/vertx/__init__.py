"""
Vert.x Kue's API: jobs on the event bus.

`KueVerticle` publishes the events of a queue at the addresses of `Addresses` and offers
its `JobService`, which `JobServiceProxy` calls from any node.  `on` and `on_job`
subscribe; `emit` publishes events of your own.  Runs of `ended_by_message` end when any
node calls `job_done` or `job_done_fail`.  `KueWorker` runs jobs as a verticle;
`CallbackKue` is the queue with callbacks.
"""

from kue.vertx.addresses import Addresses
from kue.vertx.callback_kue import CallbackKue
from kue.vertx.ended_by_message import ended_by_message, job_done, job_done_fail
from kue.vertx.event_listener import emit, on, on_job
from kue.vertx.event_publisher import EventPublisher
from kue.vertx.job_service import JobService, JobServiceProxy, register
from kue.vertx.service_binding import Proxy, ServiceCall, authorised, bind, only
from kue.vertx.verticles import KueVerticle, KueWorker

__all__ = [
    "Addresses",
    "CallbackKue",
    "EventPublisher",
    "JobService",
    "JobServiceProxy",
    "KueVerticle",
    "KueWorker",
    "Proxy",
    "ServiceCall",
    "authorised",
    "bind",
    "emit",
    "ended_by_message",
    "job_done",
    "job_done_fail",
    "on",
    "on_job",
    "only",
    "register",
]
