"""Addresses that only lead elsewhere are not public, for feeds and for sinks alike."""

from ipaddress import ip_address

import pytest

from germane.model.networks import embedded, is_public
from germane.service.sinks import Forbidden, check_url


@pytest.mark.parametrize("number", ["192.0.43.8", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_public_addresses(number):
    assert is_public(ip_address(number))


@pytest.mark.parametrize(
    "number",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "224.0.0.1", "::", "::1", "::7f00:1", "fe80::1",
     "ff0e::1", "64:ff9b::7f00:1", "64:ff9b::c000:2b08", "64:ff9b:1::1", "2002:7f00:1::1",
     "2002:c000:2b08::1", "::ffff:127.0.0.1", "2001:0:1::1", "fec0::1", "feff::1",
     "::ffff:0:7f00:1", "::ffff:0:c000:2b08", "5f00::1", "4000::1", "3fff::1", "192.88.99.1"],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused_as_sinks(number):
    assert not is_public(ip_address(number))
    host = f"[{number}]" if ":" in number else number
    with pytest.raises(Forbidden):
        check_url(f"http://{host}/")


def test_a_network_that_is_opened_does_not_open_what_it_leads_to():
    check_url("http://[64:ff9b::c000:2b08]/", ("64:ff9b::/96",))
    with pytest.raises(Forbidden, match="is at 127"):
        check_url("http://[64:ff9b::7f00:1]/", ("64:ff9b::/96",))
    check_url("http://[::ffff:0:c000:2b08]/", ("::ffff:0:0:0/96",))
    with pytest.raises(Forbidden, match="is at 10"):
        check_url("http://[::ffff:0:a00:1]/", ("::ffff:0:0:0/96",))
    assert embedded(ip_address("::1")) == []
