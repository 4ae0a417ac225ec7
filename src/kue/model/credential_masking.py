"""Credentials inside URLs, masked in texts: ``redis://ann:***@host``."""

from __future__ import annotations

import re

#: What follows ``://`` up to the colon, the password, and the last ``@`` before a path.
#: Quotes end a URL: texts have them in JSON and in the repr of values.
_USERINFO = re.compile(r"""(://[^\s/?#:@"'<>`]*:)[^\s/?#"'<>`]+@""")


def mask_credentials(text: str, mask: str = "***") -> str:
    """Return *text* with *mask* for every ``user:password@`` and ``:password@``."""
    # Nearly all texts have neither, and pay for nothing else.
    if "@" in text and "://" in text:
        return _USERINFO.sub(lambda found: f"{found[1]}{mask}@", text)
    return text
