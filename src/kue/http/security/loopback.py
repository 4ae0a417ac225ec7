"""Host names in requests, and which of them are loopback."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def host_of(header: str) -> str:
    """Return the host name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower().removesuffix(".")
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """Return whether a host name or an address can only mean this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip = ipaddress.ip_address(without_zone(name))
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


def without_zone(address: str) -> str:
    """Return *address* without its interface: ``fe80::1%eth0``."""
    return address.partition("%")[0]
