"""Credentials inside URLs, masked in texts: ``redis://ann:***@host``."""

from __future__ import annotations

import re

#: What follows ``://`` up to the colon, the password, and the last ``@`` before a path.
#: Quotes end a URL: texts have them in JSON and in the repr of values.
_USERINFO = re.compile(r"""(://[^\s/?#:@"'<>`]*:)[^\s/?#"'<>`]+@""")
#: A password among the parameters of a URL.
_PARAMETER = re.compile(r"""([?&][a-z_]*password=)[^\s&#"'<>`]+""")


def mask_credentials(text: str, mask: str = "***") -> str:
    """Return *text* with *mask* for ``user:password@``, and for ``?password=``."""
    # Nearly all texts have neither, and pay for nothing else.
    if "@" in text and "://" in text:
        text = _USERINFO.sub(lambda found: f"{found[1]}{mask}@", text)
    if "password=" in text:
        text = _PARAMETER.sub(lambda found: f"{found[1]}{mask}", text)
    return text
