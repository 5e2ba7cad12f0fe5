"""Addresses: two ways to write the same one become one."""

from __future__ import annotations

from urllib.parse import quote, urljoin, urlsplit, urlunsplit

LONGEST = 2_000
_KEPT = "/%:@!$&'()*+,;=-._~"  # of a path, as it is


def absolute(link: str, base: str) -> str | None:
    """The address that a link on a page leads to, in one spelling; none when no crawler can go there."""
    try:
        parts = urlsplit(urljoin(base, link.strip()))
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        return None
    is_usual = port is None or port == {"http": 80, "https": 443}[parts.scheme]
    place = host if is_usual else f"{host}:{port}"
    url = urlunsplit((parts.scheme, place, quote(parts.path, _KEPT) or "/", quote(parts.query, _KEPT + "?"), ""))
    return url if len(url) <= LONGEST else None


def host_of(url: str) -> str:
    """The site of an address: its host, with the port if that is an unusual one."""
    return urlsplit(url).netloc
