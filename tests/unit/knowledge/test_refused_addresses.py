"""What is refused before anything is sent is counted with its reason."""

import httpx2
import pytest
from prometheus_client import REGISTRY

from kb_knowledge.sources.guarded_http import FetchFailed, GuardedHttp
from kb_knowledge.sources.mcp_transport import GuardedMcpTransport

REFUSED = [("http://127.0.0.1/", "not_public"), ("http://127.0.0.1:6379/", "form"), ("http://a:b@127.0.0.1/", "form")]


def count(reason: str) -> float:
    return REGISTRY.get_sample_value("kb_source_addresses_refused_total", {"reason": reason}) or 0.0


@pytest.mark.parametrize(("url", "reason"), REFUSED)
async def test_an_address_of_a_page_is_counted_once(url: str, reason: str) -> None:
    before = {each: count(each) for each in ("form", "not_public")}
    http = GuardedHttp(allow_private=False)
    with pytest.raises(FetchFailed):
        await http.fetch(url)
    await http.close()
    assert {each: count(each) for each in before} == {**before, reason: before[reason] + 1}


@pytest.mark.parametrize(("url", "reason"), REFUSED)
async def test_an_address_of_an_mcp_server_is_counted_once(url: str, reason: str) -> None:
    before = {each: count(each) for each in ("form", "not_public")}
    transport = GuardedMcpTransport(allow_private=False)
    with pytest.raises(httpx2.TransportError):
        await transport.handle_async_request(httpx2.Request("POST", url))
    await transport.aclose()
    assert {each: count(each) for each in before} == {**before, reason: before[reason] + 1}
