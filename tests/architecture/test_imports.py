"""A service imports nothing that its own package does not declare: its image holds nothing else."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

NOT_IN_THE_RECONCILER = (
    "aiohttp",
    "chonkie",
    "fastapi",
    "httpx",
    "litellm",
    "numpy",
    "onnxruntime",
    "tiktoken",
    "typer",
)
NOT_IN_THE_CLIENT = (
    "chonkie",
    "fastapi",
    "httpx",
    "litellm",
    "numpy",
    "onnxruntime",
    "pydantic_settings",
    "pymongo",
    "stamina",
    "starlette",
    "tiktoken",
    "typer",
    "uvicorn",
)

BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"{{name}} is not declared", name=name)
sys.meta_path.insert(0, Block())
import {module}
"""


def imports_without(module: str, blocked: tuple[str, ...]) -> str:
    """Import `module` without the `blocked` ones and return what it prints on stderr; empty when it succeeds."""
    program = BLOCKED.format(blocked=blocked, module=module)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr


def test_the_reconciler_starts_without_what_only_other_services_need() -> None:
    assert imports_without("kb_reconciler.__main__", NOT_IN_THE_RECONCILER) == ""


def test_an_upstream_publishes_events_without_what_only_services_need() -> None:
    assert imports_without("kb_client.events", NOT_IN_THE_CLIENT) == ""


def test_litellm_and_chonkie_are_each_imported_in_one_file() -> None:
    sources = [*ROOT.glob("contracts/**/*.py"), *ROOT.glob("shared/**/*.py"), *ROOT.glob("services/**/*.py")]
    importing: dict[str, set[str]] = {"litellm": set(), "chonkie": set()}
    for source in sources:
        for line in source.read_text().splitlines():
            match = re.match(r"\s*(?:import|from) (litellm|chonkie)\b", line)
            if match:
                importing[match[1]].add(source.name)
    assert importing == {"litellm": {"quiet_litellm.py"}, "chonkie": {"chonkie_splitters.py"}}
