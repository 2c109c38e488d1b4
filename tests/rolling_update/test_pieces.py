"""The pieces of a rolling update that need no system: versions, balancing, arrivals, figures."""

import asyncio
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import monotonic

import httpx
import pytest
import yaml

from kb_contracts.documents import DocumentDeleted, OcrCompleted
from kb_local.ports import LOOPBACK
from tests.chaos.workload import Upstream
from tests.mutants.mutant import ROOT
from tests.rolling_update.__main__ import times_with
from tests.rolling_update.balancing import ServiceEndpoints, cluster_service
from tests.rolling_update.call_record import CallRecord, quantile
from tests.rolling_update.code_versions import CommitNotInClone, current_version, extract_version
from tests.rolling_update.document_changes import MIN_DOCUMENTS, DocumentChanges, to_request
from tests.rolling_update.loaded_packages import read_loaded_packages
from tests.rolling_update.open_loop import call_at_random
from tests.rolling_update.pod_times import POD_TIMES, UPDATE_ORDER, PodTimes, deployment_of
from tests.rolling_update.rollout import EndedReplica

ORGANIZATION = "org"


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits; `contracts/kb_contracts/__init__.py` differs."""
    repository = tmp_path / "repository"
    for folder in ("contracts", "shared", "services/kb-api", "services/indexer", "services/search"):
        (repository / folder).mkdir(parents=True)
        (repository / folder / "file").write_text("x")
    (repository / "services/reconciler").mkdir()
    (repository / "services/reconciler/file").write_text("x")
    (repository / "services/search/kb_search").mkdir()
    (repository / "services/search/kb_search/__main__.py").touch()
    git(tmp_path, "init", "--quiet", str(repository))
    for content in ("old", "new"):
        (repository / "contracts/file").write_text(content)
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--message", content)
    return repository


def test_the_code_of_an_earlier_commit_is_extracted_and_nothing_else(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD^")
    version = extract_version(commit[:9], tmp_path / "before", repository=repository)
    assert version.name == f"version-{commit[:7]}"
    assert (version.root / "contracts/file").read_text() == "old"
    assert version.contains(str(version.root / "shared"))
    assert not version.contains(str(repository / "shared"))
    assert not version.contains("")
    assert version.has("kb_search")
    assert not version.has("kb_knowledge.runner")
    assert current_version().has("kb_knowledge.runner")


@pytest.mark.parametrize(("depth", "remedy"), [(1, "git fetch --unshallow"), (5, "git fetch origin")])
def test_a_commit_that_is_not_in_the_clone_is_refused_with_how_to_fetch_it(
    repository: Path, tmp_path: Path, depth: int, remedy: str
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", str(depth), f"file://{repository}", str(clone))
    with pytest.raises(CommitNotInClone, match=remedy):
        extract_version("0" * 40, tmp_path / "before", repository=clone)


def test_a_process_tells_where_its_packages_were_imported_from() -> None:
    program = (
        "import kb_contracts, tests.rolling_update.loaded_packages;"
        "from prometheus_client import generate_latest; print(generate_latest().decode())"
    )
    metrics = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    folders = read_loaded_packages(metrics.stdout)
    assert set(folders) == {"kb_contracts"}
    assert current_version().contains(folders["kb_contracts"])


def test_replicas_get_requests_in_turn_as_long_as_they_are_endpoints() -> None:
    endpoints = ServiceEndpoints()
    with pytest.raises(httpx.ConnectError):
        endpoints.choose()
    for port in (1, 2, 3):
        endpoints.add(port)
    assert [endpoints.choose() for _ in range(4)] == [1, 2, 3, 1]
    endpoints.remove(2)
    assert {endpoints.choose() for _ in range(4)} == {1, 3}


async def test_a_connection_through_a_service_stays_with_its_replica() -> None:
    endpoints = ServiceEndpoints()

    async def replica(name: bytes) -> asyncio.Server:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1):
                writer.write(name)
            writer.close()

        return await asyncio.start_server(answer, LOOPBACK, 0)

    async with await replica(b"1") as first, await replica(b"2") as second, cluster_service(endpoints) as url:
        ports = [server.sockets[0].getsockname()[1] for server in (first, second)]
        endpoints.add(ports[0])
        reader, writer = await asyncio.open_connection(LOOPBACK, httpx.URL(url).port)
        writer.write(b"?")
        assert await reader.read(1) == b"1"
        endpoints.add(ports[1])
        endpoints.remove(ports[0])
        writer.write(b"?")
        assert await reader.read(1) == b"1"
        other_reader, other_writer = await asyncio.open_connection(LOOPBACK, httpx.URL(url).port)
        other_writer.write(b"?")
        assert await other_reader.read(1) == b"2"
        for each in (writer, other_writer):
            each.close()
        assert await reader.read() == await other_reader.read() == b""


async def test_calls_begin_when_they_are_due_however_long_the_others_take() -> None:
    stop, answer = asyncio.Event(), asyncio.Event()
    due_times: list[float] = []

    async def call(due: float) -> None:
        due_times.append(due)
        if len(due_times) == 20:
            stop.set()
            answer.set()
        await answer.wait()

    await call_at_random(200, call, stop=stop, dice=random.Random(1))
    expected = random.Random(1)
    expected.expovariate(200)
    pauses = [later - earlier for earlier, later in pairwise(due_times)]
    assert pauses == pytest.approx([expected.expovariate(200) for _ in pauses])


def test_a_failure_is_kept_with_what_happened_then() -> None:
    record = CallRecord()
    record.record("search", 200, due=monotonic())
    record.phase = "update of kb-search"
    record.record("search", 503, due=monotonic() - 2, failure="no replica")
    [(kind, figures)] = record.summary().items()
    assert (kind, figures["calls"], figures["failed"]) == ("search", 2, 1)
    assert figures["worst_s"] >= 2
    assert record.failures == ["search, during update of kb-search: no replica"]
    assert record.number_of_failures == 1


def test_a_pause_lasts_from_one_success_to_the_next_whatever_failed_between() -> None:
    times = iter([0.0, 1.0, 5.0, 6.0])
    record = CallRecord(clock=lambda: next(times))
    for failure in (None, "503", None, None):
        record.record("search", "", due=0, failure=failure)
    assert record.summary()["search"]["longest_pause_s"] == 5


def test_a_quantile_is_one_of_the_values() -> None:
    assert [quantile([3, 1, 2, 4], share) for share in (0.5, 0.99, 1)] == [2, 4, 4]
    assert quantile([], 1) is None


def test_only_documents_whose_newest_text_was_found_are_changed() -> None:
    changes = DocumentChanges(Upstream(ORGANIZATION), random.Random(1))
    events = [changes.next_event() for _ in range(30)]
    assert {(type(event), event.revision) for event in events} == {(OcrCompleted, 1)}
    for document in changes.documents.values():
        document.is_found = True
    assert len(changes.settled()) >= MIN_DOCUMENTS
    methods = set()
    for event in iter(changes.next_event, None):
        methods.add(to_request(event).method)
        if isinstance(event, DocumentDeleted):
            assert event.document_id not in changes.documents
        if methods == {"PUT", "PATCH", "DELETE"}:
            break


@pytest.mark.parametrize(("status", "is_wrong"), [(0, False), (1, True), (-9, True)])
def test_a_process_that_did_not_end_by_itself_with_0_is_a_problem(status: int, is_wrong: bool) -> None:
    assert bool(EndedReplica("kb-api-1", "this-version", status, took_s=1).problem()) is is_wrong


def test_the_fault_without_pre_stop_changes_nothing_else() -> None:
    assert {times.pre_stop_s for times in times_with("no-pre-stop").values()} == {0}
    assert times_with("kill") == times_with(None) == POD_TIMES


def documented_order() -> Iterator[str]:
    """Services in the table of the page that another service or a client waits for, in its order."""
    page = (ROOT / "docs/how-to/update.md").read_text()
    table = page.partition("| service | why in this order |")[2].partition("\n\n")[0]
    for row in re.findall(r"^\| ([a-z][a-z, -]*) \|", table, re.MULTILINE):
        yield from (name for name in row.split(", ") if name != "console")


def test_services_are_updated_in_the_documented_order() -> None:
    assert [f"kb-{name.removeprefix('kb-')}" for name in documented_order()] == list(map(deployment_of, UPDATE_ORDER))


@pytest.mark.parametrize("package", UPDATE_ORDER)
def test_pods_have_the_times_of_the_manifests(package: str) -> None:
    documents = yaml.safe_load_all((ROOT / f"k8s/base/{deployment_of(package)}.yaml").read_text())
    [spec] = [each["spec"] for each in documents if each["kind"] == "Deployment"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    pod = spec["template"]["spec"]
    hook = pod["containers"][0].get("lifecycle", {}).get("preStop", {"sleep": {"seconds": 0}})
    assert POD_TIMES[package] == PodTimes(
        grace_s=pod["terminationGracePeriodSeconds"],
        pre_stop_s=hook["sleep"]["seconds"],
        min_ready_s=spec.get("minReadySeconds", 0),
    )
