"""Kue over HTTP: an API and a dashboard, as an ASGI application."""

from kue.http.app import create_app
from kue.http.auth.access import Role, Scope, User
from kue.http.auth.login import Accounts
from kue.http.framework.path_prefix import Under
from kue.http.security.redaction import Redaction

__all__ = ["Accounts", "Redaction", "Role", "Scope", "Under", "User", "create_app"]
