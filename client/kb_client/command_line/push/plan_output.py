"""Prints what a push would do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kb_client.command_line.output import print_json, visible
from kb_client.command_line.push.destination import Destination
from kb_client.command_line.push.report import PushReport
from kb_client.files.document_parts import file_id

if TYPE_CHECKING:
    from kb_client.files.found_file import FoundFile
    from kb_client.files.push_plan import PushedDocument, PushPlan


def print_plan_as_json(plan: "PushPlan", *, destination: Destination, report: PushReport) -> None:
    """Print the ids of the documents for programs."""
    print_json(
        {
            "tag_ids": list(destination.tag_ids),
            "knowledge_base": destination.name,
            "is_new": destination.is_new,
            "send": sorted(plan.sends),
            "retag": sorted(plan.retags),
            "delete": sorted(plan.deletes),
            "unchanged": sorted(plan.unchanged),
            "failed": [each.file for each in report.problems],
        }
    )


def print_plan(
    plan: "PushPlan",
    *,
    files: Mapping[str, "FoundFile"],
    stored: Mapping[str, "PushedDocument"],
    destination: Destination,
    report: PushReport,
) -> None:
    """Print a line for each file that would be sent, and each document that would be deleted."""
    for document_id in plan.sends:
        print(f"send  {visible(files[document_id].relative_path)}")
    for document_id in plan.retags:
        print(f"tags  {visible(files[file_id(document_id)].relative_path)}")
    for document_id in sorted(plan.deletes):
        print(f"del   {visible(stored[document_id].shown_name)}")
    for problem in report.problems:
        print(f"FAIL  {visible(problem.file)}: {visible(problem.reason or '')}")
    print(f"{destination.describe()}; {len(plan.unchanged):,} unchanged. Nothing was sent.")
