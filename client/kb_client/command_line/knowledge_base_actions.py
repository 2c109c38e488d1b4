"""Carries out one action on each of several knowledge bases, and shows what became of each."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import print_answer
from kb_client.command_line.output_format import OutputFormat

if TYPE_CHECKING:
    from kb_contracts.api.knowledge_base_batches import ActionOutcomes, KnowledgeBaseAction
    from kb_contracts.api.knowledge_bases import KnowledgeBaseView


def carry_out_on_each(
    context: typer.Context, kbs: Sequence[str], *, action: "KnowledgeBaseAction", output: OutputFormat, id_field: str
) -> None:
    """Carry out an action on knowledge bases; with exit status 1 if one of them is refused.

    Args:
        kbs: names and ids. If one of them is of no knowledge base, nothing is done.
        id_field: field of an outcome that the format `ids` prints.
    """
    with open_client(context) as client:
        found = [find_knowledge_base(client, each) for each in kbs]
        answer = client.knowledge_bases.batch([{"kb_id": each.kb_id, "action": action} for each in found])
    accepted = [each for each in answer.outcomes if each.problem is None]
    print_answer(
        # Who reads ids goes on with those for which it worked.
        answer.model_copy(update={"outcomes": accepted}) if output == "ids" else answer,
        output,
        rows="outcomes",
        id_field=id_field,
        show=lambda: _print_messages(found, answer),
    )
    _print_problems(found, answer)
    if answer.refused_count:
        raise typer.Exit(1)


def _print_messages(found: "Sequence[KnowledgeBaseView]", answer: "ActionOutcomes") -> None:
    for kb, outcome in zip(found, answer.outcomes, strict=True):
        if outcome.message is not None:
            print(f"{kb.name}: {outcome.message}")


def _print_problems(found: "Sequence[KnowledgeBaseView]", answer: "ActionOutcomes") -> None:
    for kb, outcome in zip(found, answer.outcomes, strict=True):
        if outcome.problem is not None:
            print(f"error: {kb.name}: {outcome.problem.detail}", file=sys.stderr)
