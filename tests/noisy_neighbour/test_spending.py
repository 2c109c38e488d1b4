"""What an organization can ask for until a limit says no, and what a stranger can try."""

from typing import Final

from tests.noisy_neighbour.flood import post_json, send_again_and_again, targets, together
from tests.noisy_neighbour.innocent import Innocent
from tests.noisy_neighbour.neighbourhood import Neighbourhood
from tests.noisy_neighbour.trial import Tally, Trial

AT_ONCE: Final = 55
"""Attackers: a few more than one organization may have requests at once."""


async def test_very_many_searches_of_another_organization_cost_nobody_else_anything(trial: Trial) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        attacker = neighbourhood.attacker
        path = f"{attacker.path}/knowledge-bases/search"
        request = post_json(path, {"query": "anything"}, attacker.authorization)
        await together(send_again_and_again(attacker.kb_search_url, request, tally) for _ in range(AT_ONCE))

    await trial.survives(attack, has_taken_place=lambda tally: tally["200"] > 0 and tally["429"] > 0)


async def test_very_many_runs_of_another_organization_cost_nobody_else_anything(trial: Trial) -> None:
    attacker = trial.neighbourhood.attacker
    kb_id = await attacker.create_knowledge_base("asked")
    messages = [{"role": "user", "content": "What stands here?"}]
    body = {"messages": messages, "model": "demo-extractive", "kb_ids": [kb_id]}
    request = post_json(f"{attacker.path}/runs", body, attacker.authorization)

    async def attack(_: Neighbourhood, tally: Tally) -> None:
        await together(send_again_and_again(attacker.kb_search_url, request, tally) for _ in range(AT_ONCE))

    await trial.survives(attack, has_taken_place=lambda tally: tally["200"] > 0 and tally["429"] > 0)


async def test_very_many_administrative_calls_of_another_organization_cost_nobody_else_anything(trial: Trial) -> None:
    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        attacker = neighbourhood.attacker
        tag = post_json(f"{attacker.path}/tags", {"tag_id": "x", "name": "x"}, attacker.authorization)
        thread = post_json(f"{attacker.path}/threads", {"title": "x"}, attacker.authorization)
        await together(
            send_again_and_again(url, request, tally)
            for url, request in ((attacker.kb_api_url, tag), (attacker.kb_search_url, thread))
            for _ in range(AT_ONCE)
        )

    await trial.survives(attack, has_taken_place=lambda tally: tally["201"] > 0 and tally["429"] > 0)


async def test_guessing_the_secret_of_its_key_costs_its_owner_nothing(trial: Trial, innocent: Innocent) -> None:
    victim = trial.neighbourhood.innocent
    key_id = victim.whole_key.split("_")[1]
    headers = {"Authorization": f"Bearer kb_{key_id}_{'0' * 43}"}

    async def attack(_: Neighbourhood, tally: Tally) -> None:
        await together(
            send_again_and_again(url, post_json(path, {}, headers), tally)
            for url, path in targets(victim)
            for _ in range(AT_ONCE)
        )

    tally = await trial.survives(attack, has_taken_place=lambda tally: tally["429"] > 0)
    assert tally.keys() == {"401", "429"}
