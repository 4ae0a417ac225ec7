"""Kue over HTTP: an API and a dashboard, as an ASGI application."""

from kue.http.access import Role, Scope, User
from kue.http.app import create_app
from kue.http.login import Accounts
from kue.http.prefix import Under
from kue.http.redaction import Redaction

__all__ = ["Accounts", "Redaction", "Role", "Scope", "Under", "User", "create_app"]
