"""What an organization can do with a provider of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import httpx

from tests.chaos.workload import paragraph
from tests.hostile_provider import HostileProvider, drips, gives_vectors, gzip_bomb, hostile_provider
from tests.noisy_neighbour.neighbourhood import Neighbourhood
from tests.noisy_neighbour.trial import Tally, Trial

MODEL: Final = "text-embedding-3-small"
DIMENSIONS: Final = 16
MOST_SLOTS: Final = 28
"""Of the 32 of an indexer, for an organization that is alone."""


@dataclass(frozen=True, slots=True)
class Provided:
    """Two knowledge bases of the attacker, with its own provider, that are active."""

    kb_api: httpx.AsyncClient
    kb_ids: list[str]
    tag_id: str
    hostile: HostileProvider

    async def publish(self) -> None:
        """Publish a document of both knowledge bases."""
        document_id = f"hostile-{uuid4().hex[:12]}"
        body = {
            "document_name": document_id,
            "tag_ids": [self.tag_id],
            "upload_date": "2026-01-31T12:00:00Z",
            "text": paragraph(document_id),
        }
        (await self.kb_api.put(f"/documents/{document_id}", json=body)).raise_for_status()

    async def slots(self) -> int:
        """How many documents are worked on."""
        at_work = 0
        for kb_id in self.kb_ids:
            answer = await self.kb_api.get(f"/knowledge-bases/{kb_id}/documents", params={"status": "running"})
            at_work += answer.raise_for_status().json()["total_count"]
        return at_work

    async def delete(self) -> None:
        for kb_id in self.kb_ids:
            (await self.kb_api.delete(f"/knowledge-bases/{kb_id}")).raise_for_status()


@asynccontextmanager
async def provided(neighbourhood: Neighbourhood) -> AsyncIterator[Provided]:
    """Let the attacker have a provider that is honest so far; what it indexes with it is deleted in the end."""
    tag_id = f"hostile-{uuid4().hex[:8]}"
    async with (
        hostile_provider(gives_vectors(DIMENSIONS)) as hostile,
        neighbourhood.attacker.kb_api(timeout_s=60) as kb_api,
    ):
        key = {"api_key": "sk-of-the-attacker", "api_base": hostile.api_base}
        (await kb_api.put("/llm-providers/openai", json=key)).raise_for_status()
        kb_ids = [await neighbourhood.attacker.create_knowledge_base(tag_id, embedding_model=MODEL) for _ in range(2)]
        attacker = Provided(kb_api, kb_ids, tag_id, hostile)
        yield attacker
        await attacker.delete()
        # Whatever it was asked, nobody waits for it any more.
        await hostile.was_left()


async def test_a_provider_that_sends_a_byte_now_and_then_costs_nobody_else_anything(trial: Trial) -> None:
    async with provided(trial.neighbourhood) as attacker:
        attacker.hostile.behaviour = drips(0.1)
        for _ in range(80):
            await attacker.publish()
        await attacker.hostile.was_asked()
        most = 0

        async def attack(_: Neighbourhood, tally: Tally) -> None:
            nonlocal most
            while True:
                most = max(most, await attacker.slots())
                await attacker.publish()
                tally["published"] += 1

        await trial.survives(attack, has_taken_place=lambda tally: tally["published"] > 0)
        assert 0 < most <= MOST_SLOTS


async def test_answers_that_decompress_to_much_cost_nobody_else_anything(trial: Trial) -> None:
    async with provided(trial.neighbourhood) as attacker:
        attacker.hostile.behaviour = gzip_bomb(300_000_000)

        async def attack(_: Neighbourhood, tally: Tally) -> None:
            while True:
                await attacker.publish()
                # Of a model that has never been asked before: how many dimensions it has is not known.
                body = {"name": "bomb", "embedding_model": "text-embedding-3-large"}
                answer = await attacker.kb_api.post("/knowledge-bases", json=body)
                tally[str(answer.status_code)] += 1

        tally = await trial.survives(attack, has_taken_place=lambda tally: tally["422"] > 0)
        assert tally.keys() == {"422"}
