"""HTTP API and dashboard of a queue, as an ASGI application."""

from kue.http.app import create_app
from kue.http.auth.access import User
from kue.http.auth.account_guard import AccountGuard
from kue.http.auth.roles import Role, Scope
from kue.http.framework.path_prefix import PathPrefix
from kue.http.security.redaction import Redaction

__all__ = [
    "AccountGuard",
    "PathPrefix",
    "Redaction",
    "Role",
    "Scope",
    "User",
    "create_app",
]
