"""Kue over HTTP: an API and a dashboard, as an ASGI application."""

from kue.http.app import create_app
from kue.http.prefix import Under

__all__ = ["Under", "create_app"]
