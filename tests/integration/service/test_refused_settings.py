"""All services as they are deployed, with settings that are fit for development only."""

import json
from pathlib import Path

import pytest

from kb_local.ports import free_port
from kb_local.service import Service
from kb_local.wanted_services import ALL_SERVICES
from kb_local.zygote import Zygote
from tests.waiting import until


@pytest.mark.parametrize("package", ALL_SERVICES)
async def test_a_service_in_production_says_what_to_change_before_it_connects_anywhere(
    zygote: Zygote, tmp_path: Path, package: str
) -> None:
    service = Service(
        package,
        package,
        zygote=zygote,
        port=free_port(),
        log=tmp_path / "log",
        env={
            "KB_ENVIRONMENT": "production",
            "KB_ALLOW_PRIVATE_ADDRESSES": "on",
            "KB_KAFKA": "93.184.215.14:9092",
            "KB_MONGO_URI": f"mongodb://127.0.0.1:{free_port()}",
        },
    )
    try:
        service.launch()
        await until(lambda: not service.running, what="the end of the service")
    finally:
        await service.kill()
    [line] = [json.loads(line) for line in service.log.read_text().splitlines()]
    assert service.returncode == 1
    assert line["event"] == "process.misconfigured"
    assert line["reason"].startswith("KB_ENVIRONMENT=production: ")
