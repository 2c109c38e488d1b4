from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from kb_local.ports import LOOPBACK
from kb_local.zygote import Zygote

PACKAGES = Path(__file__).parent / "packages"
NO_MODELS = f"http://{LOOPBACK}:1/v1"
"""Given to stacks whose services embed nothing."""


def is_gone(pid: int) -> bool:
    """Say whether the process has ended; a zombie, whose status was not read yet, has ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def living(pids: list[int]) -> list[int]:
    return [pid for pid in pids if not is_gone(pid)]


@pytest.fixture
async def light_zygote(tmp_path: Path) -> AsyncIterator[Zygote]:
    """A zygote that has imported nothing but knows the dummy service."""
    zygote = Zygote(log=tmp_path / "zygote.log", preloaded=(), env={"PYTHONPATH": str(PACKAGES)})
    await zygote.start()
    yield zygote
    await zygote.stop()
