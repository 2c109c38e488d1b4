import signal
import stat
import sys
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from kb_local.errors import ServerDied
from kb_local.ports import NO_TLS, free_port
from kb_local.service import Service
from kb_local.zygote import Zygote
from tests.integration.local.conftest import is_gone
from tests.waiting import until


def dummy(zygote: Zygote, tmp_path: Path, **env: str) -> Service:
    return Service("kb-dummy", "kb_dummy", zygote=zygote, port=free_port(), log=tmp_path / "kb-dummy.log", env=env)


async def describe(service: Service) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False, verify=NO_TLS, timeout=30) as client:
        answer: dict[str, Any] = (await client.get(service.url)).json()
        return answer


async def test_a_forked_service_sees_its_own_environment_and_writes_its_own_log(
    light_zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_LEFT_OVER", "of the shell")
    service = dummy(light_zygote, tmp_path, KB_COLOUR="green")
    await service.start()
    description = await describe(service)
    if sys.platform == "linux":
        assert psutil.Process(service.pid).name() == "kb_dummy"
    await service.stop()
    assert stat.S_IMODE(service.log.stat().st_mode) == 0o600
    assert description["pid"] == service.pid
    assert description["environment"] == {
        "KB_COLOUR": "green",
        "KB_HTTP_HOST": "127.0.0.1",
        "KB_HTTP_PORT": str(service.port),
    }
    assert service.log.read_text() == "dummy started\n"


async def test_the_shared_zygote_has_imported_all_services_and_still_has_one_thread(zygote: Zygote) -> None:
    assert psutil.Process(zygote.pid).num_threads() == 1
    assert "cannot preload" not in zygote.log.read_text()


async def test_a_service_whose_code_was_edited_after_it_was_imported_runs_the_new_code(tmp_path: Path) -> None:
    package = tmp_path / "packages/kb_edited"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("VERSION = 1\n")
    (package / "__main__.py").write_text(
        "import os, kb_edited\ndef main(): os._exit(kb_edited.VERSION)\nif __name__ == '__main__': main()\n"
    )
    environment = {"PYTHONPATH": str(package.parent)}
    zygote = Zygote(log=tmp_path / "zygote.log", preloaded=["kb_edited"], env=environment)
    await zygote.start()
    statuses = []
    for version in (1, 22):
        if version > 1:
            (package / "__init__.py").write_text(f"VERSION = {version}\n")
        child = zygote.fork("kb_edited.__main__", env=environment, log=tmp_path / "edited.log")
        await until(lambda child=child: child.poll() is not None, what="the end of the child")
        statuses.append(child.returncode)
    await zygote.stop()
    assert statuses == [1, 22]


async def test_exits_are_reported_with_their_status(light_zygote: Zygote, tmp_path: Path) -> None:
    service = dummy(light_zygote, tmp_path, KB_DUMMY_EXIT="3")
    with pytest.raises(ServerDied, match="exit status 3"):
        await service.start()
    service = dummy(light_zygote, tmp_path)
    await service.start()
    await service.kill()
    assert service.returncode == -signal.SIGKILL


async def test_a_killed_service_can_be_started_again_on_its_port(light_zygote: Zygote, tmp_path: Path) -> None:
    service = dummy(light_zygote, tmp_path)
    await service.start()
    first = service.pid
    await service.kill()
    await service.start()
    assert (await describe(service))["pid"] != first
    await service.stop()


async def test_a_signal_right_after_the_fork_hits_the_service_and_not_the_zygote(
    light_zygote: Zygote, tmp_path: Path
) -> None:
    for _ in range(30):
        service = dummy(light_zygote, tmp_path)
        service.launch()
        assert await service.stop() == -signal.SIGTERM
    assert light_zygote.running


async def test_services_end_with_their_zygote(light_zygote: Zygote, tmp_path: Path) -> None:
    service = dummy(light_zygote, tmp_path)
    await service.start()
    pid = service.pid
    await light_zygote.kill()
    assert service.returncode == -signal.SIGKILL
    await until(lambda: is_gone(pid), what="the end of the service")
    with pytest.raises(ServerDied):
        service.launch()


async def test_a_module_that_does_not_import_harms_only_itself(tmp_path: Path) -> None:
    zygote = Zygote(log=tmp_path / "zygote.log", preloaded=("no_such_module", "json"))
    await zygote.start()
    assert "cannot preload no_such_module" in zygote.log.read_text()
    assert await zygote.stop() == 0
