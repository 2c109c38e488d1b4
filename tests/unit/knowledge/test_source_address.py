import asyncio
import socket
from typing import Any

import pytest

from kb_knowledge.sources.source_address import ForbiddenAddress, check_address, check_form


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com", "http://example.com:80/a?b#c", "https://example.com:443", "https://EXAMPLE.com.",
        "https://bücher.example/", "http://8.8.8.8/", "http://[2001:4860:4860::8888]/",
    ],
)  # fmt: skip
def test_addresses_of_web_servers_have_the_right_form(url: str) -> None:
    check_form(url, allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
        "javascript:alert(1)", "http://", "http://good@127.0.0.1/", "http://good:bad@example.com/", "http://@example.com/",
        "http://example.com:8080/", "http://example.com:22/", "http://example.com:99999/", "http://example.com:x/",
        "http://example.com\\@127.0.0.1/", "http://exa mple.com/", "http://example.com/\r\nHost: other", "http://[::1/",
        "http://example.com/" + 2_000 * "a",
    ],
)  # fmt: skip
def test_other_addresses_are_refused_before_a_name_is_looked_up(url: str) -> None:
    with pytest.raises(ForbiddenAddress) as refused:
        check_form(url, allow_private=False)
    assert not url or url not in str(refused.value)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "localhost", "[::1]", "[::ffff:127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "169.254.169.254", "100.64.0.1", "224.0.0.1", "127.0.0.1.",
        "no-such-host.invalid",
    ],
)  # fmt: skip
def test_addresses_of_our_own_network_are_refused_when_a_source_is_set_up(host: str) -> None:
    with pytest.raises(ForbiddenAddress):
        asyncio.run(check_address(f"http://{host}/", allow_private=False))


def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(*_args: Any, **_options: Any) -> list[Any]:
        return [(None, None, None, "", (address, 80)) for address in ("8.8.8.8", "169.254.169.254")]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with pytest.raises(ForbiddenAddress):
        asyncio.run(check_address("http://mixed.example/", allow_private=False))
