"""The TypeScript client: it type-checks, answers as its tests expect from a running system, and can be packed."""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from kb_local.stack import Stack

CLIENT: Final = Path(__file__).parents[2] / "clients/typescript"

pytestmark = pytest.mark.npm


def npm(*arguments: str, env: Mapping[str, str] | None = None) -> str:
    """Run npm in the folder of the client, and return what it prints."""
    done = subprocess.run(
        ["npm", *arguments], cwd=CLIENT, env=os.environ | (env or {}), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Install what the lock names, and generate the types of the OpenAPI document."""
    npm("ci")
    npm("run", "generate")


@pytest.fixture(scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    async with Stack(tmp_path_factory.mktemp("typescript")) as running:
        yield running


def test_it_type_checks_strictly() -> None:
    npm("run", "check")


def test_it_answers_correctly(stack: Stack) -> None:
    environment = {
        "KB_BASE_URL": stack.base_url,
        "KB_ORGANIZATION": stack.organization_id,
        "KB_API_KEY": stack.api_key,
    }
    report = npm("test", env=environment)
    assert "# fail 0" in report, report


def test_the_package_has_code_and_types_and_nothing_else() -> None:
    printed = npm("pack", "--dry-run", "--json")
    # Behind what the script `prepack` prints.
    [packed] = json.loads(printed[printed.rindex("\n[") :])
    files = {entry["path"] for entry in packed["files"]}
    assert {"dist/index.js", "dist/index.d.ts", "dist/schema.d.ts", "package.json", "README.md"} <= files
    assert [path for path in files if not path.startswith("dist/") and path not in {"package.json", "README.md"}] == []


def test_the_lock_has_no_addresses_of_registries() -> None:
    lock = json.loads((CLIENT / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    assert [name for name, package in lock["packages"].items() if name and "integrity" not in package] == []
