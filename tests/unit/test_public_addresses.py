import asyncio
import socket
from typing import Any

import pytest

from kb_shared.providers.public_addresses import NotPublic, is_public, public_addresses_of


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_accepted(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1",
        "192.0.0.1", "192.88.99.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:808:808::", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "fd00::1", "fe80::1", "fe80::1%lo", "ff02::1", "nonsense", "",
    ],
)  # fmt: skip
def test_addresses_of_our_own_network_in_all_their_disguises(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0",
        "localhost",
        "[::1]",
        "no-such-host.invalid",
        "\uff11" * 300,
    ],
)
def test_names_and_notations_of_this_machine_are_not_public(host: str) -> None:
    with pytest.raises(NotPublic):
        asyncio.run(public_addresses_of(host, 443))


def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(*_args: Any, **_options: Any) -> list[Any]:
        return [(None, None, None, "", (address, 443)) for address in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with pytest.raises(NotPublic):
        asyncio.run(public_addresses_of("mixed.example", 443))
