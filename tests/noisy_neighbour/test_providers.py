"""What an organization can do with a provider of its own, or what that provider does to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import httpx

from kb_shared.embedding.pace import FIRST_TEXTS, LONGEST_ANSWER_S
from tests.chaos.workload import paragraph
from tests.hostile_provider import (
    HostileProvider,
    SequentialProvider,
    drips,
    gives_vectors,
    gzip_bomb,
    hostile_provider,
    streams_fast_without_end,
)
from tests.noisy_neighbour.attack_check import AttackCheck, Tally
from tests.noisy_neighbour.flood import PAUSE_S, post_json, read_repeatedly, run_attackers, send_repeatedly
from tests.noisy_neighbour.neighbourhood import Neighbourhood
from tests.waiting import until

MODEL: Final = "text-embedding-3-small"
UNKNOWN_MODEL: Final = "text-embedding-3-large"
"""Model of this provider that was never called, so that its dimensions have to be detected."""
CHAT_MODEL: Final = "gpt-4o-mini"
DIMENSIONS: Final = 16
MOST_SLOTS: Final = 28
"""Slots that an organization alone may use of the 32 of an indexer."""
PARAGRAPHS: Final = 5
"""Paragraphs of a document, each of which is a chunk."""


@dataclass(frozen=True, slots=True)
class AttackersKnowledgeBases:
    """Two knowledge bases of the attacker, with its own provider, that are active."""

    kb_api: httpx.AsyncClient
    kb_search: httpx.AsyncClient
    kb_ids: list[str]
    tag_id: str
    hostile: HostileProvider

    async def publish(self, *, paragraphs: int = 1) -> None:
        """Publish a document of both knowledge bases."""
        document_id = f"hostile-{uuid4().hex[:12]}"
        body = {
            "document_name": document_id,
            "tag_ids": [self.tag_id],
            "upload_date": "2026-01-31T12:00:00Z",
            "text": "\n\n".join(paragraph(f"{document_id} {number}") for number in range(paragraphs)),
        }
        (await self.kb_api.put(f"/documents/{document_id}", json=body)).raise_for_status()

    async def search(self) -> httpx.Response:
        """Search both knowledge bases with a new query."""
        return await self.kb_search.post("/knowledge-bases/search", json={"query": uuid4().hex, "kb_ids": self.kb_ids})

    async def documents(self, status: str) -> int:
        """Count the documents in this status, of both knowledge bases together."""
        found = 0
        for kb_id in self.kb_ids:
            answer = await self.kb_api.get(f"/knowledge-bases/{kb_id}/documents", params={"status": status})
            found += answer.raise_for_status().json()["total_count"]
        return found

    async def count_spus(self) -> int:
        """Count what was charged for both knowledge bases: vectors that came and were stored."""
        answers = [(await self.kb_api.get(f"/knowledge-bases/{kb_id}/stats")).json() for kb_id in self.kb_ids]
        return sum(answer["spus"] for answer in answers)


@asynccontextmanager
async def attackers_knowledge_bases(neighbourhood: Neighbourhood) -> AsyncIterator[AttackersKnowledgeBases]:
    """Let the attacker have a provider that is honest so far; what it indexes with it is deleted in the end."""
    tag_id, attacker = f"hostile-{uuid4().hex[:8]}", neighbourhood.attacker
    async with (
        hostile_provider(gives_vectors(DIMENSIONS)) as hostile,
        attacker.kb_api(timeout_s=60) as kb_api,
        attacker.kb_search(timeout_s=60) as kb_search,
    ):
        key = {"api_key": "sk-of-the-attacker", "api_base": hostile.api_base}
        (await kb_api.put("/llm-providers/openai", json=key)).raise_for_status()
        options: dict[str, Any] = {"embedding_model": MODEL}
        kb_ids = await asyncio.gather(*(attacker.create_knowledge_base(tag_id, **options) for _ in range(2)))
        of_attacker = AttackersKnowledgeBases(kb_api, kb_search, kb_ids, tag_id, hostile)
        yield of_attacker
        for kb_id in kb_ids:
            await attacker.delete_knowledge_base(kb_id)
        (await kb_api.delete("/llm-providers/openai")).raise_for_status()
        # No request to it is open any more.
        await hostile.wait_until_disconnected()


async def test_a_provider_that_sends_a_byte_now_and_then_does_not_slow_down_another_organization(
    attack_check: AttackCheck,
) -> None:
    async with attackers_knowledge_bases(attack_check.neighbourhood) as attacker:
        attacker.hostile.behaviour = drips(0.1)
        await _publish(attacker, documents=MOST_SLOTS)
        await attacker.hostile.wait_for_requests()
        most = 0

        async def attack(_: Neighbourhood, __: Tally) -> None:
            nonlocal most
            while True:
                most = max(most, await attacker.documents("running"))
                await attacker.publish()
                await asyncio.sleep(PAUSE_S)

        await attack_check.assert_unaffected(attack, has_taken_place=lambda _: most > 0)
        # Though it has two knowledge bases, and each may hold three quarters of all slots. On a busy machine, the
        # indexer works on fewer documents, so that the limit may not be reached.
        assert most <= MOST_SLOTS


async def test_answers_that_decompress_to_much_do_not_slow_down_another_organization(attack_check: AttackCheck) -> None:
    async with attackers_knowledge_bases(attack_check.neighbourhood) as attacker:
        attacker.hostile.behaviour = gzip_bomb(300_000_000)

        async def attack(_: Neighbourhood, tally: Tally) -> None:
            while True:
                await attacker.publish()
                body = {"name": "bomb", "embedding_model": UNKNOWN_MODEL}
                answer = await attacker.kb_api.post("/knowledge-bases", json=body)
                tally[str(answer.status_code)] += 1
                await asyncio.sleep(PAUSE_S)

        tally = await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["422"] > 0)
        assert tally.keys() == {"422"}


async def test_chat_answers_without_end_do_not_slow_down_another_organization(attack_check: AttackCheck) -> None:
    async with attackers_knowledge_bases(attack_check.neighbourhood) as attacker:
        attacker.hostile.behaviour = streams_fast_without_end()

        async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
            caller = neighbourhood.attacker
            messages = [{"role": "user", "content": "How long is a long answer?"}]
            # As long as an answer of this model may be; or less, since the short form waits for the end of two.
            budget, at_once = ({}, 4) if attack_check.is_long else ({"max_tokens": 1_000}, 1)
            body = {"messages": messages, "model": CHAT_MODEL, "kb_ids": attacker.kb_ids, "budget": budget}
            for_program, for_reader = caller.authorization, {**caller.authorization, "Accept": "text/event-stream"}
            whole, streamed = (post_json(f"{caller.path}/runs", body, each) for each in (for_program, for_reader))
            await run_attackers(
                [
                    *(send_repeatedly(caller.kb_search_url, whole, tally) for _ in range(at_once)),
                    *(read_repeatedly(caller.kb_search_url, streamed, tally) for _ in range(at_once)),
                ]
            )

        # Long before the time is over that a chat model has: without a limit of their size none of them would end.
        await attack_check.assert_unaffected(
            attack, has_taken_place=lambda tally: tally["503"] > 0 and tally["ended"] > 0
        )


async def test_all_answers_of_a_very_slow_provider_are_used_and_its_searches_are_answered(
    attack_check: AttackCheck,
) -> None:
    documents, texts_per_s = (20, 1.0) if attack_check.is_long else (4, 40.0)
    async with attackers_knowledge_bases(attack_check.neighbourhood) as attacker:
        provider = SequentialProvider(texts_per_s, DIMENSIONS)
        attacker.hostile.behaviour = provider
        before = await attacker.count_spus()
        await _publish(attacker, documents=documents, paragraphs=PARAGRAPHS)

        async def attack(_: Neighbourhood, tally: Tally) -> None:
            while True:
                tally[str((await attacker.search()).status_code)] += 1
                await asyncio.sleep(PAUSE_S)

        async def are_indexed() -> bool:
            return await attacker.documents("indexed") == 2 * documents

        tally = await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["200"] > 0)
        assert tally.keys() == {"200"}
        await until(are_indexed, within_s=3 * documents * PARAGRAPHS / texts_per_s + 30, every_s=0.1)
        await until(lambda: attacker.hostile.waited_for == 0)
        # No request is so large that its answer comes near its deadline. The short form has fewer texts than that.
        assert provider.largest <= max(FIRST_TEXTS, LONGEST_ANSWER_S * texts_per_s)
        used = await attacker.count_spus() - before
        assert used >= documents * PARAGRAPHS + tally["200"]
        # The last search ends with the attack, which need not be after the answer to it.
        assert used >= provider.answered - 1


async def _publish(attacker: AttackersKnowledgeBases, *, documents: int, paragraphs: int = 1) -> None:
    async with asyncio.TaskGroup() as publishing:
        for _ in range(documents):
            publishing.create_task(attacker.publish(paragraphs=paragraphs))
