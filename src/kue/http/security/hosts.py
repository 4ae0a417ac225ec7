"""Names in requests, and which of them mean this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def host_of(header: str) -> str:
    """Return the name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower().removesuffix(".")
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """Tell whether a name or an address is this machine's own, which no network has."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip = ipaddress.ip_address(without_zone(name))
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


def without_zone(address: str) -> str:
    """Leave out the interface: ``fe80::1%eth0``."""
    return address.partition("%")[0]
