"""Where webhooks may go: public addresses, and networks that an operator has opened.

A URL is checked when it is subscribed, and again for every attempt after its name was resolved; the
connection is then made to the address that was checked, so that a name cannot change in between.
"""

import socket
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple
from urllib.parse import urlsplit

from germane.model import InvalidValue
from germane.model.networks import embedded, is_public

PORTS = {"http": 80, "https": 443}


class Forbidden(InvalidValue):
    """A webhook's address is not open to the public."""


class Target(NamedTuple):
    """A URL, taken apart, and the address that its host has now."""

    scheme: str
    host: str
    port: int
    address: str


def check_url(url: str, allowed: tuple[str, ...] = ()) -> None:
    """Raise unless a URL can be a sink; names are resolved only when something is sent.

    >>> check_url("https://example.org/hook")
    """
    host, _ = _parts(url)
    try:
        address = ip_address(host)
    except ValueError:
        return
    _check_address(address, host, allowed)


def resolve(url: str, allowed: tuple[str, ...] = ()) -> Target:
    """The address that a sink has now; raises ``Forbidden`` if any of its addresses is closed."""
    host, port = _parts(url)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OSError(f"{host} has no address: {error}") from None
    addresses = [str(entry[4][0]) for entry in found]
    for each in addresses:
        _check_address(ip_address(each.split("%")[0]), host, allowed)
    return Target(urlsplit(url).scheme, host, port, addresses[0])


def _parts(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidValue(f"a sink is a URL such as https://example.org/hook: {error}") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise InvalidValue(f"a sink is a URL such as https://example.org/hook, not {url!r:.200}")
    if parts.username is not None or parts.password is not None:
        raise InvalidValue("a sink's URL carries no user and no password")
    if not url.isascii() or any(c.isspace() or ord(c) < 32 for c in url):
        raise InvalidValue("a sink's URL is written in ASCII, without spaces")
    return parts.hostname, port or PORTS[parts.scheme]


def _check_address(address: IPv4Address | IPv6Address, host: str, allowed: tuple[str, ...]) -> None:
    networks = _networks(allowed)
    for each in (address, *embedded(address)):
        if any(each in network for network in networks if network.version == each.version):
            continue
        if not is_public(each):
            raise Forbidden(
                f"{host} is at {each}, which is not a public address; --allow-sink opens a network"
            )


def _networks(allowed: tuple[str, ...]) -> list[IPv4Network | IPv6Network]:
    return [ip_network(each) for each in allowed]
