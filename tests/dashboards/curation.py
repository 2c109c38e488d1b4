"""Entries, imports, texts for a chat model, and sources with a web site, for as long as a test works."""

import asyncio
import json
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import httpx

from kb_local.ports import NO_TLS
from tests.dashboards.everyday import quietly
from tests.e2e.system import SystemUnderTest
from tests.integration.knowledge.sources.web_site import ROBOTS, WebSite, serve_site

PAUSE_S: Final = 1.0
SOURCES: Final = 3
"""More than the runner of the stack reads at once."""
MODEL: Final = "scripted-curation"
SLOW_ROBOTS: Final = ROBOTS + "Crawl-delay: 10\n"
"""A run of two pages takes longer than the time between two counts of the open runs."""
ENTITIES: Final[dict[str, Any]] = {"metadata": {"user:alice": {"entity_type": "user", "properties": {"team": "aero"}}}}
CREDENTIAL: Final = "The password: " + "Tr0ub4dor" + "&3x"
WITH_CREDENTIALS: Final = "https://a:b@example.com/"


@dataclass(frozen=True, slots=True)
class Curation:
    system: SystemUnderTest

    async def go_on(self) -> None:
        """Work until cancelled, whatever fails meanwhile."""
        async with (
            serve_site(WebSite(pages=4)) as site,
            serve_site(WebSite(pages=2, robots=SLOW_ROBOTS)) as slow_site,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self._write())
            group.create_task(self._run_sources(site, sources=SOURCES))
            group.create_task(self._run_sources(slow_site, sources=1))

    async def _write(self) -> None:
        model_server = self.system.stack.model_server
        assert model_server is not None
        async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS) as admin:
            script = {"model": MODEL, "turns": [{"text": json.dumps(ENTITIES)}]}
            await quietly(admin.put("/admin/chat", json=script))
        for number in count():
            await self._post("/knowledge-entries", title=f"Note {number}", content=f"Bridge {number} is closed.")
            await self._post("/knowledge-entries", title="Access", content=CREDENTIAL)
            await self._post("/knowledge:import", **ENTITIES)
            await self._post("/knowledge:structure", text="Alice works on aerodynamics.", model=MODEL)
            address = {"url": WITH_CREDENTIALS}
            await self._post("/knowledge-sources", label="Wiki", kind="url_crawl", config=address)
            await asyncio.sleep(PAUSE_S)

    async def _run_sources(self, site: WebSite, *, sources: int) -> None:
        source_ids: list[str] = []
        for number in count():
            if len(source_ids) < sources:
                config = {"url": site.url, "depth": 1}
                created = await self._post("/knowledge-sources", label="Site", kind="url_crawl", config=config)
                if created is not None and created.is_success:
                    source_ids.append(created.json()["source_id"])
            site.texts[0] = f"Number {number}."
            for source_id in source_ids:
                await self._post(f"/knowledge-sources/{source_id}/run")
            if source_ids:
                await self._post(f"/knowledge-sources/{source_ids[0]}/preview")
            await asyncio.sleep(PAUSE_S)

    async def _post(self, path: str, **body: Any) -> httpx.Response | None:
        return await quietly(self.system.http.post(path, json=body))
