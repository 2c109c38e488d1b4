"""What an organization can ask for until a limit says no, and what a stranger can try."""

from typing import Final

from tests.noisy_neighbour.attack_check import AttackCheck, Tally
from tests.noisy_neighbour.flood import post_json, run_attackers, send_repeatedly, targets
from tests.noisy_neighbour.measured_tenant import MeasuredTenant
from tests.noisy_neighbour.neighbourhood import Neighbourhood

AT_ONCE: Final = 55
"""Attackers: a few more than one organization may have requests at once."""


async def test_very_many_searches_of_one_organization_do_not_slow_down_another(attack_check: AttackCheck) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        attacker = neighbourhood.attacker
        path = f"{attacker.path}/knowledge-bases/search"
        request = post_json(path, {"query": "anything"}, attacker.authorization)
        await run_attackers(send_repeatedly(attacker.kb_search_url, request, tally) for _ in range(AT_ONCE))

    await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["200"] > 0 and tally["429"] > 0)


async def test_very_many_runs_of_one_organization_do_not_slow_down_another(attack_check: AttackCheck) -> None:
    attacker = attack_check.neighbourhood.attacker
    kb_id = await attacker.create_knowledge_base("asked")
    messages = [{"role": "user", "content": "What stands here?"}]
    body = {"messages": messages, "model": "demo-extractive", "kb_ids": [kb_id]}
    request = post_json(f"{attacker.path}/runs", body, attacker.authorization)

    async def attack(_: Neighbourhood, tally: Tally) -> None:
        await run_attackers(send_repeatedly(attacker.kb_search_url, request, tally) for _ in range(AT_ONCE))

    await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["200"] > 0 and tally["429"] > 0)


async def test_very_many_administrative_calls_of_one_organization_do_not_slow_down_another(
    attack_check: AttackCheck,
) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        attacker = neighbourhood.attacker
        tag = post_json(f"{attacker.path}/tags", {"tag_id": "x", "name": "x"}, attacker.authorization)
        thread = post_json(f"{attacker.path}/threads", {"title": "x"}, attacker.authorization)
        await run_attackers(
            send_repeatedly(url, request, tally)
            for url, request in ((attacker.kb_api_url, tag), (attacker.kb_search_url, thread))
            for _ in range(AT_ONCE)
        )

    await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["201"] > 0 and tally["429"] > 0)


async def test_guessing_the_secret_of_its_key_costs_its_owner_nothing(
    attack_check: AttackCheck, measured: MeasuredTenant
) -> None:
    victim = attack_check.neighbourhood.measured
    key_id = victim.whole_key.split("_")[1]
    headers = {"Authorization": f"Bearer kb_{key_id}_{'0' * 43}"}

    async def attack(_: Neighbourhood, tally: Tally) -> None:
        await run_attackers(
            send_repeatedly(url, post_json(path, {}, headers), tally)
            for url, path in targets(victim)
            for _ in range(AT_ONCE)
        )

    tally = await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["429"] > 0)
    assert tally.keys() == {"401", "429"}
