"""An event bus: addresses, consumers, requests; in one process or over a cluster."""

from kue.bus.bus import EventBus
from kue.bus.cluster import ClusterManager, ClusterMember
from kue.bus.codecs import ClassCodec, Codec, Codecs
from kue.bus.consumer import Consumer, Handler
from kue.bus.errors import BusClosed, FailureKind, RequestFailed
from kue.bus.headers import Headers
from kue.bus.interceptors import Interceptor, Proceed
from kue.bus.local_cluster import LocalCluster
from kue.bus.message import Message

__all__ = [
    "BusClosed",
    "ClassCodec",
    "ClusterManager",
    "ClusterMember",
    "Codec",
    "Codecs",
    "Consumer",
    "EventBus",
    "FailureKind",
    "Handler",
    "Headers",
    "Interceptor",
    "LocalCluster",
    "Message",
    "Proceed",
    "RequestFailed",
]
