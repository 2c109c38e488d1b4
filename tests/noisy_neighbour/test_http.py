"""What a stranger, or an organization with a key, can do to the HTTP servers."""

import asyncio
import json
from typing import Final

from tests.noisy_neighbour.attack_check import AttackCheck, Tally
from tests.noisy_neighbour.conftest import SILENT_CONNECTIONS
from tests.noisy_neighbour.connection import connected, head
from tests.noisy_neighbour.flood import PAUSE_S, post, run_attackers, send_repeatedly, targets
from tests.noisy_neighbour.neighbourhood import Neighbourhood

LARGE_BODY: Final = b"[" + b",".join([b'{"":0}'] * 285_000) + b"]"
"""2 MB that take long to parse."""
PIECES: Final = b"1\r\nx\r\n" * 40_000
REFUSED: Final = {"401", "429"}
"""429: more of them than may fail in a minute; the measured organization calls from the same address."""
WRONG_KEY: Final = {"Authorization": "Bearer kb_0_0"}
PAGES: Final = [{"page": number + 1, "start": number, "end": number + 1} for number in range(20_000)]


async def test_large_bodies_without_a_key_do_not_slow_down_an_organization(attack_check: AttackCheck) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        await run_attackers(
            send_repeatedly(url, post(path, LARGE_BODY, WRONG_KEY), tally)
            for url, path in targets(neighbourhood.measured)
            for _ in range(4)
        )

    tally = await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["401"] > 0)
    assert tally.keys() <= REFUSED


async def test_bodies_of_tiny_pieces_without_a_key_do_not_slow_down_an_organization(attack_check: AttackCheck) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        start = {**WRONG_KEY, "Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        await run_attackers(
            send_repeatedly(url, head("POST", path, start) + PIECES, tally)
            for url, path in targets(neighbourhood.measured)
            for _ in range(4)
        )

    tally = await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["401"] > 0)
    assert tally.keys() <= REFUSED


async def test_connections_that_never_send_a_whole_head_do_not_slow_down_an_organization(
    attack_check: AttackCheck,
) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        await run_attackers(
            connect_repeatedly(url, tally)
            for url, _ in targets(neighbourhood.measured)
            for _ in range(SILENT_CONNECTIONS)
        )

    await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["opened"] > 2 * SILENT_CONNECTIONS)


async def test_bodies_that_never_come_do_not_slow_down_an_organization(attack_check: AttackCheck) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        attacker = neighbourhood.attacker
        lengths = {**attacker.authorization, "Content-Type": "application/json", "Content-Length": "1000"}
        await run_attackers(
            send_repeatedly(url, head("POST", path, lengths), tally)
            for url, path in targets(attacker)
            for _ in range(55)
        )

    await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["429"] > 0)


async def test_large_bodies_of_one_organization_do_not_slow_down_another(attack_check: AttackCheck) -> None:
    document = {"document_name": "x", "tag_ids": ["x"], "upload_date": "2026-01-31T12:00:00Z", "pages": PAGES}
    unknown = {f"{number:x}": 0 for number in range(100_000)}

    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        attacker = neighbourhood.attacker
        await run_attackers(
            send_repeatedly(url, post(path, body, attacker.authorization), tally)
            for url, path in targets(attacker)
            for body in (LARGE_BODY, json.dumps(document).encode(), json.dumps(unknown).encode())
            for _ in range(2)
        )

    await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["400"] > 0 and tally["422"] > 0)


async def test_schemas_that_take_long_to_check_do_not_slow_down_another_organization(attack_check: AttackCheck) -> None:
    levels = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(20)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**levels, "d20": {"type": "object"}}}
    body = json.dumps({"name": "x", "content": "x", "model": "demo-extractive", "schema": schema}).encode()

    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        attacker = neighbourhood.attacker
        request = post(f"{attacker.path}/prompts", body, attacker.authorization)
        await run_attackers(send_repeatedly(attacker.kb_search_url, request, tally) for _ in range(3))

    tally = await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["422"] > 0)
    assert tally.keys() == {"422"}


async def connect_repeatedly(url: str, tally: Tally) -> None:
    """Send a part of a head, over a new connection whenever the one before is closed."""
    while True:
        async with connected(url) as connection:
            tally["opened"] += 1
            await connection.send(b"GET /v0/orgs HTTP/1.1\r\nHost: ")
            await connection.ended()
        await asyncio.sleep(PAUSE_S)
