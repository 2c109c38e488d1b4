"""Runs the system out of its images, on servers of this machine, and tries what a deployment needs of them."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx

from kb_local.demo.api import Api
from kb_local.stack import Stack
from tests.images import buildah
from tests.images.container import Container, environment, run_in_image

SERVICES: Final = ("kb-api", "kb-indexer", "kb-search", "kb-knowledge", "kb-console", "kb-reconciler")
SECOND_PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    "kb-knowledge-runner": ("kb-knowledge", "kb_knowledge.runner"),
}
"""Image and module of what runs in the image of a service, in place of its own program."""
# Imports what a service imports at its start, and counts tokens, which needs a vocabulary.
_WITHOUT_NETWORK: Final[Mapping[str, str]] = {
    "kb-api": "import kb_api.bootstrap, kb_shared.providers.quiet_litellm",
    "kb-indexer": "import kb_indexer.bootstrap, kb_shared.text.tokens as t; assert t.count_tokens('two words') == 2",
    "kb-search": "import kb_search.bootstrap, kb_shared.text.tokens as t; assert t.count_tokens('two words') == 2",
    "kb-knowledge": (
        "import asyncio, kb_knowledge.bootstrap, kb_knowledge.runner.bootstrap, kb_knowledge.sources.parse_item as p\n"
        "async def save(path):\n"
        "    path.write_bytes(b'<h1>Travel</h1><p>By train.</p>')\n"
        "with p.ItemParser() as parser:\n"
        "    page = asyncio.run(parser.parse_file(save, filename='travel.html'))\n"
        "assert 'By train' in page.text"
    ),
    "kb-console": (
        "import kb_console.bootstrap, kb_client.files.formats.pdf.document, kb_client.files.formats.office.word"
    ),
    "kb-reconciler": "import kb_reconciler.bootstrap",
    "kb-admin": "import kb_reconciler.set_up.set_up, kb_reconciler.backup.backup, kb_reconciler.export.export_kb",
}
_WRITES: Final = "import pathlib; pathlib.Path('/tmp/x').write_text(''); pathlib.Path('/opt/kb/x').write_text('')"


class ImageUnfit(Exception):
    """Something that an image does not do."""


@dataclass(frozen=True, slots=True)
class _Image:
    root: Path
    configuration: Mapping[str, Any]

    async def run(self, *command: str, env: Mapping[str, str] | None = None, network: bool = True) -> tuple[int, str]:
        values = environment(self.configuration, env or {})
        return await run_in_image(self.root, self.configuration, *command, env=values, network=network)


async def try_images(home: Path, names: Sequence[str]) -> None:
    """Try all images.

    Raises:
        ImageUnfit: with what failed.
    """
    with ExitStack() as mounts:
        images = {
            name: _Image(mounts.enter_context(buildah.mounted(name)), buildah.read_configuration(name))
            for name in names
        }
        for name, image in images.items():
            await _try_alone(name, image)
        async with Stack(home, services=(), env={"KB_EMBEDDING_MODEL": "hash-64"}) as stack:
            await _try_together(images, stack, home)


async def _try_alone(name: str, image: _Image) -> None:
    status, output = await image.run("python", "-c", _WITHOUT_NETWORK[name], network=False)
    _require(status == 0, f"{name} needs a network to start: {output[-2000:]}")
    status, output = await image.run("python", "-c", _WRITES)
    _require("Read-only file system: '/opt/kb/x'" in output, f"{name} can write beside /tmp: {output[-500:]}")
    status, output = await image.run("python", "-c", "print(open('/proc/self/status').read())")
    for line in ("Uid:\t10001\t10001\t10001\t10001", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"):
        _require(line in output, f"{name} does not run without privileges: {line!r} is not in {output}")
    for path in ("etc/pip.conf", "root/.config/pip", "build", "wheels"):
        _require(not (image.root / path).exists(), f"{name} has something of its build: /{path}")


async def _try_together(images: Mapping[str, _Image], stack: Stack, home: Path) -> None:
    status, output = await images["kb-admin"].run("kb", "set-up", "--json", env=stack.environment)
    _require(status == 0, f"kb set-up failed: {output}")
    programs: dict[str, tuple[str, str | None]] = {name: (name, None) for name in SERVICES} | dict(SECOND_PROGRAMS)
    containers = [
        Container(
            name,
            root=images[image].root,
            configuration=images[image].configuration,
            env=stack.environment | (_environment_of_console(stack) if name == "kb-console" else {}),
            port=stack.ports.reserve(name),
            log=home / "logs" / f"{name}.log",
            module=module,
        )
        for name, (image, module) in programs.items()
    ]
    try:
        for container in containers:
            container.launch()
        for container in containers:
            await container.wait_ready()
            _require(await container.is_healthy(), f"{container.name}: its HEALTHCHECK fails while it runs")
        await _index_and_search(stack)
        status, output = await images["kb-admin"].run("kb", "backup", "/tmp/b", "--json", env=stack.environment)
        _require(status == 0 and json.loads(output)["knowledge_bases"] == 1, f"kb backup failed: {output}")
        for container in containers:
            status = await container.stop()
            _require(status == 0, f"{container.name} ended with {status}: {container.log_tail()}")
            _require(not await container.is_healthy(), f"{container.name}: its HEALTHCHECK passes after its end")
    finally:
        for container in containers:
            await container.kill()


def _environment_of_console(stack: Stack) -> dict[str, str]:
    return {"KB_BASE_URL": stack.base_url, "KB_CONSOLE_SECRET": stack.home.read_secrets().console_secret}


async def _index_and_search(stack: Stack) -> None:
    async with Api(stack.base_url, stack.organization_id, api_key=stack.api_key, logs=stack.home.logs) as api:
        await api.create_tags(["smoke"])
        kb_id = await api.create_knowledge_base("Smoke", "One document", tag_ids=["smoke"])
        await api.wait_until_active(kb_id)
        document = {
            "document_name": "Travel policy",
            "tag_ids": ["smoke"],
            "upload_date": datetime.now(UTC).isoformat(),
            "text": "A night in a hotel may cost at most 140 euros.",
        }
        url = f"{stack.base_url}/v0/orgs/{stack.organization_id}/documents/travel"
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {stack.api_key}"}, timeout=60) as client:
            (await client.put(url, json=document)).raise_for_status()
            (await client.get(f"{stack.base_url}/console/sign-in")).raise_for_status()
        await api.wait_for_document(kb_id, "What may a hotel cost?", document_id="travel", present=True)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ImageUnfit(otherwise)
