"""The native API, by section.  A new section is one module and one line here."""

from kue.http.v1 import health

SECTIONS = (health.section,)

__all__ = ["SECTIONS"]
