"""
Vert.x Kue's API: jobs on the event bus.

`KueVerticle` publishes the events of a queue at the addresses of `Addresses` and offers
its `JobService`, which `JobServiceProxy` calls from any node.  `on` and `on_job`
subscribe.  `KueWorker` runs jobs as a verticle; `CallbackKue` is the queue with
callbacks.
"""

from kue.vertx.addresses import Addresses
from kue.vertx.callback_kue import CallbackKue
from kue.vertx.event_listener import on, on_job
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
    "on",
    "on_job",
    "only",
    "register",
]
