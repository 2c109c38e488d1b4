"""`kb reconcile` on the answers of kb-api: what it sends, prints, and exits with."""

import json
from typing import Any

import httpx
import pytest

from kb_client import reconcile_command
from tests.unit.client.command_line.answering_api import KB_ID, KNOWLEDGE_BASE, CommandRunner

NO_DRIFT = {"count": 0, "examples": []}
PLAN: dict[str, Any] = {
    "plan_id": "p1",
    "kb_id": None,
    "document_id": None,
    "dry_run": False,
    "state": "done",
    "found": {},
    "repaired": {},
    "slices": 0,
    "compared": 0,
    "skipped": [],
    "requested_by": "a",
    "approved_by": None,
    "created_at": "2026-01-31T00:00:00Z",
    "finished_at": None,
    "error": None,
    "missing_documents": NO_DRIFT,
    "stale_documents": NO_DRIFT,
    "orphaned_vectors": NO_DRIFT,
    "missing_embeddings": NO_DRIFT,
    "repairs": [],
    "total_count": 0,
}
REPAIR = {"kb_id": KB_ID, "document_id": "d1", "kind": "stale", "problem": "it is wrong", "repair": "it is removed"}


class PlanServer:
    """Answers with one plan after the other, and keeps the requests."""

    def __init__(self, *plans: dict[str, Any]) -> None:
        self.plans = [PLAN | plan for plan in plans]
        self.requests: list[httpx.Request] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/knowledge-bases"):
            # No knowledge base has a name that looks like an id.
            return httpx.Response(200, json={"knowledge_bases": [], "total_count": 0})
        if request.url.path.endswith(f"/knowledge-bases/{KB_ID}"):
            return httpx.Response(200, json=KNOWLEDGE_BASE)
        self.requests.append(request)
        return httpx.Response(200, json=self.plans.pop(0) if len(self.plans) > 1 else self.plans[0])

    @property
    def paths(self) -> list[str]:
        return [f"{request.method} {request.url.path.removeprefix('/v0/orgs/acme')}" for request in self.requests]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile_command, "POLL_S", 0.0)


@pytest.mark.parametrize(
    ("arguments", "path", "dry_run"),
    [
        ([], "/reconcile", "false"),
        ([KB_ID], f"/knowledge-bases/{KB_ID}/reconcile", "false"),
        ([KB_ID, "--dry-run"], f"/knowledge-bases/{KB_ID}/reconcile", "true"),
        ([KB_ID, "--document", "d1"], f"/knowledge-bases/{KB_ID}/documents/d1/reconcile", "false"),
    ],
)
def test_it_asks_for_what_the_arguments_name_with_the_key_of_the_environment(
    kb: CommandRunner, arguments: list[str], path: str, dry_run: str
) -> None:
    server = PlanServer({})
    result = kb(server.answer, "reconcile", *arguments)
    assert result.status == 0, result.errors
    assert server.paths == [f"POST {path}", "GET /reconcile/plans/p1"]
    assert server.requests[0].url.params["dry_run"] == dry_run
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer kb_a_secret"}
    assert "No drift was found." in result.printed


def test_an_id_is_one_segment_of_the_path_whatever_was_typed(kb: CommandRunner) -> None:
    server = PlanServer({})
    kb(server.answer, "reconcile", KB_ID, "--document", "../a?b")
    path = server.requests[0].url.raw_path.decode()
    assert path.startswith(f"/v0/orgs/acme/knowledge-bases/{KB_ID}/documents/..%2Fa%3Fb/reconcile?")


def test_it_waits_until_the_reconciler_is_done(kb: CommandRunner) -> None:
    states = ("requested", "requested", "running", "running", "done")
    server = PlanServer(*({"state": state, "slices": 2, "compared": n} for n, state in enumerate(states)))
    assert kb(server.answer, "reconcile", KB_ID).status == 0
    assert len(server.requests) == len(states)


def test_it_prints_what_was_found_and_repaired(kb: CommandRunner) -> None:
    server = PlanServer({"found": {"stale": 3, "missing": 2}, "repaired": {"stale": 3}, "skipped": ["k9"]})
    result = kb(server.answer, "reconcile")
    assert [line.split() for line in result.printed.splitlines()[1:3]] == [["missing", "2", "0"], ["stale", "3", "3"]]
    assert "not compared, because it is not active: k9" in result.printed


def test_a_dry_run_lists_the_repairs_and_says_how_to_make_them(kb: CommandRunner) -> None:
    server = PlanServer({"state": "planned", "found": {"stale": 25}, "repairs": [REPAIR], "total_count": 25})
    result = kb(server.answer, "reconcile", KB_ID, "--dry-run")
    assert result.status == 0
    assert "it is removed" in result.printed
    assert "and 24 more" in result.printed
    assert "kb reconcile --apply p1" in result.printed


def test_a_plan_is_applied_by_its_id(kb: CommandRunner) -> None:
    server = PlanServer({"state": "approved"}, {"found": {"stale": 1}, "repaired": {"stale": 1}})
    assert kb(server.answer, "reconcile", "--apply", "p1").status == 0
    assert server.paths == ["POST /reconcile/plans/p1/apply", "GET /reconcile/plans/p1"]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"state": "stopped", "found": {"stale": 25}, "total_count": 25}, "kb reconcile --apply p1"),
        ({"state": "failed", "error": "ValueError"}, "failed (ValueError)"),
    ],
)
def test_a_plan_that_was_stopped_or_failed_is_a_failure(kb: CommandRunner, plan: dict[str, Any], said: str) -> None:
    result = kb(PlanServer(plan).answer, "reconcile")
    assert (result.status, said in result.printed) == (1, True)


def test_json_is_the_plan_and_nothing_else(kb: CommandRunner) -> None:
    result = kb(PlanServer({"state": "running"}, {"found": {"stale": 1}}).answer, "reconcile", "--json")
    assert json.loads(result.printed) == PLAN | {"found": {"stale": 1}}
    assert result.errors == ""


def test_a_reconciler_that_makes_no_progress_is_not_waited_for_without_end(
    kb: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile_command, "MAX_WAIT_WITHOUT_PROGRESS_S", 0.05)
    result = kb(PlanServer({"state": "requested"}).answer, "reconcile")
    assert result.status == 1
    assert "is the reconciler running?" in result.errors


def test_missing_settings_are_named(kb: CommandRunner) -> None:
    result = kb(PlanServer({}).answer, "reconcile", environment={"KB_BASE_URL": "http://kb.test"})
    assert result.status == 1
    assert result.errors.startswith("error: organization and api_key are missing")


@pytest.mark.parametrize("arguments", [["--document", "d1"], [KB_ID, "--apply", "p1"], ["--apply", "p1", "--dry-run"]])
def test_arguments_that_do_not_fit_together_are_wrong_usage(kb: CommandRunner, arguments: list[str]) -> None:
    server = PlanServer({})
    assert kb(server.answer, "reconcile", *arguments).status == 2
    assert server.requests == []


def test_a_refusal_is_one_line(kb: CommandRunner) -> None:
    problem = {"type": "not-found", "title": "Not found", "status": 404, "detail": "No such plan.", "request_id": "r1"}
    headers = {"Content-Type": "application/problem+json"}
    result = kb(lambda _: httpx.Response(404, json=problem, headers=headers), "reconcile", "--apply", "p1")
    assert (result.status, result.errors) == (1, "error: No such plan. (not-found 404, request r1)\n")


def test_a_server_that_is_away_is_one_line_without_a_traceback(kb: CommandRunner) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    result = kb(refuse, "reconcile", KB_ID)
    assert (result.status, "http://kb.test can't be reached (ConnectError" in result.errors) == (1, True)
