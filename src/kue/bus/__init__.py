"""An event bus: addresses, consumers, requests; in one process or over a cluster."""

from kue.bus.bus import EventBus
from kue.bus.cluster import ClusterManager, Member
from kue.bus.codecs import ClassCodec, Codec, Codecs
from kue.bus.consumer import Consumer, Handler
from kue.bus.errors import BusClosed, Failure, RequestFailed
from kue.bus.headers import Headers
from kue.bus.interceptors import Interceptor, Proceed
from kue.bus.local_cluster import LocalCluster
from kue.bus.message import Message

__all__ = [
    "BusClosed",
    "ClassCodec",
    "ClusterManager",
    "Codec",
    "Codecs",
    "Consumer",
    "EventBus",
    "Failure",
    "Handler",
    "Headers",
    "Interceptor",
    "LocalCluster",
    "Member",
    "Message",
    "Proceed",
    "RequestFailed",
]
