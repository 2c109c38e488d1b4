"""What an organization can write into its own documents."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from tests.noisy_neighbour.attack_check import AttackCheck, Tally
from tests.noisy_neighbour.flood import PAUSE_S, post_json, run_attackers, send_repeatedly
from tests.noisy_neighbour.neighbourhood import NeighbourClient, Neighbourhood
from tests.waiting import until

SIZE: Final = 16_000
"""Characters of white space: of line feeds, 32 are one token, so that they are one chunk."""
WHITE_SPACE: Final = {
    "line-feeds": "\n" * SIZE,
    "blank-lines": " \n" * (SIZE // 2),
    "spaces": " " * SIZE,
    "half-a-header": "\n [document" * (SIZE // 100) + "\n" * (SIZE // 4),
}
LARGEST_BYTES: Final = 20_000_000
"""Greatest size of a text that is stored."""
AT_ONCE: Final = 3
"""Attackers of each kind. Each costs others little even if a search takes long; together they would stop them."""


async def test_documents_of_white_space_do_not_slow_down_another_organization(attack_check: AttackCheck) -> None:
    tag_id = f"spacious-{uuid4().hex[:8]}"
    attacker = attack_check.neighbourhood.attacker
    kb_id = await attacker.create_knowledge_base(tag_id, chunk_size=512)
    await _publish(attacker, kb_id, tag_id)

    async def attack(_: Neighbourhood, tally: Tally) -> None:
        await run_attackers(
            send_repeatedly(attacker.kb_search_url, request, tally, name=f"{name} ")
            for name, request in _requests(attacker, kb_id).items()
            for _ in range(AT_ONCE)
        )

    names = _requests(attacker, kb_id).keys()
    await attack_check.assert_unaffected(
        attack, has_taken_place=lambda tally: all(tally[f"{name} 200"] > 0 for name in names)
    )


async def test_large_texts_of_one_organization_do_not_slow_down_another(attack_check: AttackCheck) -> None:
    tag_id = f"large-{uuid4().hex[:8]}"
    attacker = attack_check.neighbourhood.attacker
    kb_id = await attacker.create_knowledge_base(tag_id, chunk_size=512)
    lines = {"a line of many\n": "lines", "\n": "line-feeds"}
    size = LARGEST_BYTES if attack_check.is_long else LARGEST_BYTES // 40

    async def attack(_: Neighbourhood, tally: Tally) -> None:
        async with attacker.kb_api(timeout_s=60) as http:
            while True:
                for line, document_id in lines.items():
                    text = (line * size)[:size]
                    stored = await http.put(
                        f"/documents/{document_id}/text", content=text.encode(), headers={"Content-Type": "text/plain"}
                    )
                    body = {**_document(document_id, tag_id), "text_ref": stored.raise_for_status().json()["text_ref"]}
                    (await http.put(f"/documents/{document_id}", json=body)).raise_for_status()
                    tally[document_id] += 1
                await asyncio.sleep(PAUSE_S)

    await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally.keys() == set(lines.values()))
    await attacker.delete_knowledge_base(kb_id)


async def _publish(attacker: NeighbourClient, kb_id: str, tag_id: str) -> None:
    """Publish documents of white space between two words, and wait until they are indexed."""
    async with attacker.kb_api(timeout_s=60) as http:
        for document_id, space in WHITE_SPACE.items():
            body = {**_document(document_id, tag_id), "text": f"alpha{space}omega"}
            (await http.put(f"/documents/{document_id}", json=body)).raise_for_status()

        async def are_indexed() -> bool:
            answer = await http.get(f"/knowledge-bases/{kb_id}/documents")
            return bool(answer.raise_for_status().json()["total_count"] == len(WHITE_SPACE))

        await until(are_indexed, every_s=0.1)


def _document(document_id: str, tag_id: str) -> dict[str, Any]:
    return {"document_name": document_id, "tag_ids": [tag_id], "upload_date": "2026-01-31T12:00:00Z"}


def _requests(attacker: NeighbourClient, kb_id: str) -> Mapping[str, bytes]:
    """The ways by which such a text reaches a caller or a model, each as a request."""
    search = {"query": "alpha omega", "kb_ids": [kb_id], "top_k": 10}
    question = [{"role": "user", "content": "alpha omega"}]
    # Less than one passage has: it has to be cut.
    short = {"query": "alpha omega", "document_ids": ["line-feeds"], "max_tokens": 300}
    run = {"messages": question, "model": "demo-extractive"}
    path = attacker.path
    return {
        "search": _ask(attacker, f"{path}/knowledge-bases/{kb_id}/search", short),
        "tool": _call(attacker, "search_knowledge_base", search),
        "chunks": _call(attacker, "get_document_chunks", {"kb_id": kb_id, "document_id": "line-feeds"}),
        "run": _ask(attacker, f"{path}/runs", run | {"kb_ids": [kb_id]}),
        "document": _ask(attacker, f"{path}/runs", run | {"kb_ids": [], "document_id": "line-feeds"}),
    }


def _ask(attacker: NeighbourClient, path: str, body: Mapping[str, Any]) -> bytes:
    return post_json(path, body, attacker.authorization)


def _call(attacker: NeighbourClient, tool: str, arguments: Mapping[str, Any]) -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    accepted = {"Accept": "application/json, text/event-stream"}
    return post_json("/mcp", body, {**attacker.authorization, **accepted})
