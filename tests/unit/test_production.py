import re
from typing import Any

import pytest
from structlog.testing import capture_logs

from kb_api.settings import ApiSettings
from kb_indexer.settings import IndexerSettings
from kb_reconciler.settings import ReconcilerSettings
from kb_search.settings import SearchSettings
from kb_shared.errors import Misconfigured
from kb_shared.service.production import check_settings
from kb_shared.settings import CommonSettings

PUBLIC_PEPPER = "local-pepper"
SECRET = "of-this-deployment"
PUBLIC_SERVERS = ["93.184.215.14:9092", "[2606:2800:21f:cb07::1]:9092"]
PRIVATE_SERVERS = ["127.0.0.1:9092", "localhost:9092", "10.0.0.7:9092", "[fd00::7]:9092", "100.64.0.7:9092"]
SERVICES = [ApiSettings, IndexerSettings, ReconcilerSettings, SearchSettings]


def production(service: type[CommonSettings], **settings: Any) -> CommonSettings:
    pepper = {"api_key_pepper": SECRET} if "api_key_pepper" in service.model_fields else {}
    return service(environment="production", **{**pepper, **settings})


async def refusal_of(settings: CommonSettings) -> str:
    with pytest.raises(Misconfigured) as refused:
        await check_settings(settings)
    return str(refused.value)


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_with_its_own_secrets_starts_in_production(service: type[CommonSettings]) -> None:
    await check_settings(production(service))


@pytest.mark.parametrize("service", [ApiSettings, SearchSettings])
@pytest.mark.parametrize(
    "peppers",
    [
        {"api_key_pepper": PUBLIC_PEPPER},
        {"api_key_former_peppers": ["another", PUBLIC_PEPPER]},
        {"api_key_next_pepper": PUBLIC_PEPPER},
    ],
    ids=["current", "former", "next"],
)
async def test_the_public_pepper_is_refused_in_production(
    service: type[CommonSettings], peppers: dict[str, Any]
) -> None:
    assert "KB_API_KEY_PEPPER" in await refusal_of(production(service, **peppers))


@pytest.mark.parametrize("service", [ApiSettings, IndexerSettings, SearchSettings])
async def test_private_providers_are_refused_in_production(service: type[CommonSettings]) -> None:
    assert "KB_ALLOW_PRIVATE_ADDRESSES" in await refusal_of(production(service, allow_private_addresses=True))


@pytest.mark.parametrize("server", PUBLIC_SERVERS)
@pytest.mark.parametrize("service", [ApiSettings, IndexerSettings, ReconcilerSettings])
async def test_kafka_at_a_public_address_is_refused_without_tls(service: type[CommonSettings], server: str) -> None:
    reason = await refusal_of(production(service, kafka=f"{PRIVATE_SERVERS[0]}, {server}"))
    assert server in reason
    assert PRIVATE_SERVERS[0] not in reason


@pytest.mark.parametrize("server", PUBLIC_SERVERS)
async def test_kafka_at_a_public_address_is_used_with_tls(server: str) -> None:
    await check_settings(production(IndexerSettings, kafka=server, kafka_security_protocol="SSL"))


async def test_search_does_not_ask_where_kafka_is_because_it_does_not_use_it() -> None:
    await check_settings(production(SearchSettings, kafka=PUBLIC_SERVERS[0]))


@pytest.mark.parametrize("server", PRIVATE_SERVERS)
async def test_kafka_inside_the_own_network_needs_no_tls(server: str) -> None:
    await check_settings(production(IndexerSettings, kafka=server))


async def test_a_server_that_is_not_found_is_accepted_and_logged() -> None:
    with capture_logs() as logs:
        await check_settings(production(IndexerSettings, kafka="nowhere.invalid:9092"))
    assert [(line["event"], line["server"]) for line in logs] == [
        ("production.kafka_not_found", "nowhere.invalid:9092")
    ]


async def test_all_settings_to_change_are_named_at_once_and_no_secret() -> None:
    reason = await refusal_of(
        production(
            ApiSettings, api_key_pepper=PUBLIC_PEPPER, allow_private_addresses=True, kafka=",".join(PUBLIC_SERVERS)
        )
    )
    assert set(re.findall(r"KB_[A-Z_]+", reason)) >= {"KB_API_KEY_PEPPER", "KB_ALLOW_PRIVATE_ADDRESSES", "KB_KAFKA"}
    assert all(server in reason for server in PUBLIC_SERVERS)
    assert PUBLIC_PEPPER not in reason


async def test_outside_of_production_nothing_is_refused() -> None:
    await check_settings(
        ApiSettings(api_key_pepper=PUBLIC_PEPPER, allow_private_addresses=True, kafka=PUBLIC_SERVERS[0])
    )
