"""The images contain what their services need, in the versions that were tested, and nothing else."""

import asyncio
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from images.healthcheck import is_healthy
from kb_local.ports import free_port
from tests.deployment.image_checks import ROOT, ROOT_PACKAGES, find_lock_mistakes, read_lock
from tests.deployment.proxy_routing import StubService

DOCKERFILE = (ROOT / "Dockerfile").read_text()
REQUIREMENTS = (ROOT / "requirements.lock").read_text()
SECRETS_OF_A_CHECKOUT = (
    ".env",
    ".kb/secrets.json",
    ".git/config",
    "requirements.lock",
    "local/kb_local/cli.py",
    "tests/x",
)


@pytest.mark.parametrize("image", ROOT_PACKAGES)
def test_an_image_has_exactly_what_its_service_needs_in_tested_versions(image: str) -> None:
    assert find_lock_mistakes(image, read_lock(image), requirements=REQUIREMENTS) == []


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (r"(?m)^uvloop==\S+", "uvloop==0.1", "uvloop==0.1 is not the version that the tests run with"),
        (r"(?m)^uvloop==", "pytest==", "uvloop is missing"),
        (
            r"(?m)^aiokafka==",
            "pytest==9 \\\\\n    --hash=sha256:0\naiokafka==",
            "pytest is needed by nothing in kb-reconciler",
        ),
        (r"(?m)^uvloop==(\S+) \\\n(    --hash.*\n?)+", r"uvloop==\1 \\" + "\n", "uvloop==0.23.0 has no hash"),
    ],
)
def test_a_mistake_in_a_lock_is_reported(old: str, new: str, finding: str) -> None:
    lock, replaced = re.subn(old, new, read_lock("kb-reconciler"))
    assert replaced == 1
    assert finding in find_lock_mistakes("kb-reconciler", lock, requirements=REQUIREMENTS)


def test_the_dockerfile_is_clean() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    checked = subprocess.run(
        [hadolint, "--failure-threshold", "style", ROOT / "Dockerfile"], check=False, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout) == (0, "")


def test_each_image_runs_a_module_that_exists_as_its_own_user_and_without_a_shell() -> None:
    stages = re.split(r"(?m)^FROM ", DOCKERFILE)
    finals = {name: text for text in stages for name in ROOT_PACKAGES if re.match(rf"\S+ AS {name}\n", text)}
    assert finals.keys() == ROOT_PACKAGES.keys()
    assert all("RUN" not in text for text in finals.values())
    modules = re.findall(r'ENTRYPOINT \["python", "-m", "(\w+)"\]', DOCKERFILE)
    assert sorted(modules) == ["kb_api", "kb_console", "kb_indexer", "kb_knowledge", "kb_reconciler", "kb_search"]
    assert all(find_spec(f"{module}.__main__") for module in modules)
    assert DOCKERFILE.count("\nUSER 10001:10001\n") == 1
    assert not re.search(r"(?m)^(RUN|CMD|ENTRYPOINT|HEALTHCHECK.*CMD) [^\[]", DOCKERFILE)


def test_what_a_checkout_has_beside_the_sources_never_reaches_a_build() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    admitted = [rule[1:] for rule in rules if rule.startswith("!")]
    assert not any(path.startswith(rule) for path in SECRETS_OF_A_CHECKOUT for rule in admitted)
    assert all((ROOT / rule).exists() for rule in admitted)


async def test_the_health_check_passes_only_if_the_service_answers() -> None:
    stub = StubService("kb-api")
    server = await asyncio.start_server(stub.answer, "127.0.0.1", 0)
    assert await asyncio.to_thread(is_healthy, server.sockets[0].getsockname()[1])
    assert stub.paths == ["/healthz"]
    server.close()
    assert not await asyncio.to_thread(is_healthy, free_port())
