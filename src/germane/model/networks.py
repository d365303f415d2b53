"""Which addresses of the internet anybody may be connected to: those of the public one.

In: an IPv4 or IPv6 address. Out: whether it is public, and the addresses that it stands for. What
only leads elsewhere (NAT64, 6to4, IPv4 written as IPv6) is not public: where it leads is up to the
network, and may be one's own. Of IPv6, only what is handed out for the internet is public.
"""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network

__all__ = ["embedded", "is_public"]

_HANDED_OUT = IPv6Network("2000::/3")
_AT_THE_END = tuple(  # networks whose addresses end with one of IPv4: NAT64, and translated
    IPv6Network(each) for each in ("64:ff9b::/96", "::ffff:0:0:0/96")
)
_COMPATIBLE = IPv6Network("::/96")
_CLOSED = tuple(
    ip_network(each) for each in ("2002::/16", "3fff::/20", "192.88.99.0/24", "224.0.0.0/4")
)


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of the public internet, and of one host.

    >>> is_public(IPv4Address("192.0.43.8")), is_public(IPv6Address("64:ff9b::7f00:1"))
    (True, False)
    """
    if isinstance(address, IPv6Address) and address not in _HANDED_OUT:
        return False
    return address.is_global and not any(
        address in network for network in _CLOSED if network.version == address.version
    )


def embedded(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """IPv4 addresses that an IPv6 address stands for.

    >>> embedded(IPv6Address("64:ff9b::7f00:1"))
    [IPv4Address('127.0.0.1')]
    """
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, address.teredo and address.teredo[1]]
    ends = any(address in network for network in _AT_THE_END)
    if ends or (address in _COMPATIBLE and int(address) > 1):
        found.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return [each for each in found if each]
