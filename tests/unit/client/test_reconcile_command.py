"""`kb reconcile` on the answers of kb-api: what it sends, prints, and exits with."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from kb_client import reconcile_command
from kb_client.api_connection import ApiConnection
from kb_client.cli import create_app

ENVIRONMENT = {"KB_BASE_URL": "http://kb.test", "KB_ORGANIZATION": "acme", "KB_API_KEY": "secret", "COLUMNS": "200"}
PLAN: dict[str, Any] = {
    "plan_id": "p1",
    "state": "done",
    "found": {},
    "repaired": {},
    "slices": 0,
    "compared": 0,
    "skipped": [],
    "error": None,
    "repairs": [],
    "total_count": 0,
}
REPAIR = {"kb_id": "k1", "document_id": "d1", "kind": "stale", "problem": "it is wrong", "repair": "it is removed"}

Answer = Callable[[httpx.Request], httpx.Response]


class PlanServer:
    """Answers with one plan after the other, and keeps the requests."""

    def __init__(self, *plans: dict[str, Any]) -> None:
        self.plans = [PLAN | plan for plan in plans]
        self.requests: list[httpx.Request] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(200, json=self.plans.pop(0) if len(self.plans) > 1 else self.plans[0])

    @property
    def paths(self) -> list[str]:
        return [f"{request.method} {request.url.path.removeprefix('/v0/orgs/acme')}" for request in self.requests]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr(reconcile_command, "POLL_S", 0.0)
    open_connection = ApiConnection.open

    def run(answer: Answer, *arguments: str, environment: dict[str, str] = ENVIRONMENT) -> Result:
        def connect(connection: ApiConnection) -> httpx.Client:
            return open_connection(connection, httpx.MockTransport(answer))

        monkeypatch.setattr(ApiConnection, "open", connect)
        for name in ENVIRONMENT:
            monkeypatch.delenv(name, raising=False)
        return CliRunner().invoke(create_app(), ["reconcile", *arguments], env=environment)

    return run


@pytest.mark.parametrize(
    ("arguments", "path", "dry_run"),
    [
        ([], "/reconcile", "false"),
        (["k1"], "/knowledge-bases/k1/reconcile", "false"),
        (["k1", "--dry-run"], "/knowledge-bases/k1/reconcile", "true"),
        (["k1", "--document", "d1"], "/knowledge-bases/k1/documents/d1/reconcile", "false"),
    ],
)
def test_it_asks_for_what_the_arguments_name_with_the_key_of_the_environment(
    run: Callable[..., Result], arguments: list[str], path: str, dry_run: str
) -> None:
    server = PlanServer({})
    result = run(server.answer, *arguments)
    assert result.exit_code == 0, result.output
    assert server.paths == [f"POST {path}", "GET /reconcile/plans/p1"]
    assert server.requests[0].url.params["dry_run"] == dry_run
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer secret"}
    assert "No drift was found." in result.stdout


def test_an_id_is_one_segment_of_the_path_whatever_was_typed(run: Callable[..., Result]) -> None:
    server = PlanServer({})
    run(server.answer, "../tags?x", "--document", "a/b")
    path = server.requests[0].url.raw_path.decode()
    assert path.startswith("/v0/orgs/acme/knowledge-bases/..%2Ftags%3Fx/documents/a%2Fb/reconcile?")


def test_it_waits_until_the_reconciler_is_done(run: Callable[..., Result]) -> None:
    states = ("requested", "requested", "running", "running", "done")
    server = PlanServer(*({"state": state, "slices": 2, "compared": n} for n, state in enumerate(states)))
    assert run(server.answer, "k1").exit_code == 0
    assert len(server.requests) == len(states)


def test_it_prints_what_was_found_and_repaired(run: Callable[..., Result]) -> None:
    server = PlanServer({"found": {"stale": 3, "missing": 2}, "repaired": {"stale": 3}, "skipped": ["k9"]})
    result = run(server.answer)
    lines = [line.split("│")[1:4] for line in result.stdout.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line] for line in lines] == [["missing", "2", "0"], ["stale", "3", "3"]]
    assert "not compared, because it is not active: k9" in result.stdout


def test_a_dry_run_lists_the_repairs_and_says_how_to_make_them(run: Callable[..., Result]) -> None:
    server = PlanServer({"state": "planned", "found": {"stale": 25}, "repairs": [REPAIR], "total_count": 25})
    result = run(server.answer, "k1", "--dry-run")
    assert result.exit_code == 0
    assert "it is removed" in result.stdout
    assert "and 24 more" in result.stdout
    assert "kb reconcile --apply p1" in result.stdout


def test_a_plan_is_applied_by_its_id(run: Callable[..., Result]) -> None:
    server = PlanServer({"state": "approved"}, {"found": {"stale": 1}, "repaired": {"stale": 1}})
    assert run(server.answer, "--apply", "p1").exit_code == 0
    assert server.paths == ["POST /reconcile/plans/p1/apply", "GET /reconcile/plans/p1"]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"state": "stopped", "found": {"stale": 25}, "total_count": 25}, "kb reconcile --apply p1"),
        ({"state": "failed", "error": "ValueError"}, "failed (ValueError)"),
    ],
)
def test_a_plan_that_was_stopped_or_failed_is_a_failure(
    run: Callable[..., Result], plan: dict[str, Any], said: str
) -> None:
    result = run(PlanServer(plan).answer)
    assert (result.exit_code, said in result.stdout) == (1, True)


def test_json_is_the_plan_and_nothing_else(run: Callable[..., Result]) -> None:
    result = run(PlanServer({"state": "running"}, {"found": {"stale": 1}}).answer, "--json")
    assert json.loads(result.stdout) == PLAN | {"found": {"stale": 1}}
    assert result.stderr == ""


def test_a_reconciler_that_makes_no_progress_is_not_waited_for_without_end(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile_command, "MAX_WAIT_WITHOUT_PROGRESS_S", 0.05)
    result = run(PlanServer({"state": "requested"}).answer)
    assert result.exit_code == 1
    assert "is the reconciler running?" in result.stderr


def test_missing_settings_are_named(run: Callable[..., Result]) -> None:
    result = run(PlanServer({}).answer, environment={"KB_BASE_URL": "http://kb.test"})
    assert (
        result.exit_code,
        result.stderr.startswith("error: set KB_ORGANIZATION, KB_API_KEY in the environment"),
    ) == (
        1,
        True,
    )


@pytest.mark.parametrize("arguments", [["--document", "d1"], ["k1", "--apply", "p1"], ["--apply", "p1", "--dry-run"]])
def test_arguments_that_do_not_fit_together_are_wrong_usage(run: Callable[..., Result], arguments: list[str]) -> None:
    server = PlanServer({})
    assert run(server.answer, *arguments).exit_code == 2
    assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            httpx.Response(
                404, json={"title": "There is no such knowledge base", "detail": "Or a key.", "request_id": "r1"}
            ),
            "error: There is no such knowledge base. Or a key. (status 404, request r1)",
        ),
        (httpx.Response(502, text="<html>"), "error: the server answered 502"),
    ],
)
def test_a_refusal_is_one_line(run: Callable[..., Result], answer: httpx.Response, said: str) -> None:
    result = run(lambda _: answer, "k1")
    assert (result.exit_code, result.stderr.strip()) == (1, said)


def test_a_server_that_is_away_is_one_line_without_a_traceback(run: Callable[..., Result]) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    result = run(refuse, "k1")
    assert (result.exit_code, "can't be reached (ConnectError)" in result.stderr) == (1, True)
