"""Kue over HTTP: an API and a dashboard, as an ASGI application."""

from kue.http.app import create_app

__all__ = ["create_app"]
