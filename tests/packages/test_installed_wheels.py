"""Users need no more than `pip install` of the wheels in an empty environment; `make test-dist` builds them before."""

import json
import textwrap
import zipfile
from collections.abc import Iterator

import pytest

from tests.packages.environments import UserEnvironment
from tests.packages.wheels import ROOT, PublishedPackage, published_packages, wheel_of

pytestmark = pytest.mark.dist

PUBLISH = """
import asyncio
import sys
from datetime import UTC, datetime

from kb_client.events import EventPublisher
from kb_client.subscriber import EventSubscriber
from kb_contracts.documents import OcrCompleted
from kb_contracts.outcomes import DocumentIndexed


async def main(kafka: str) -> None:
    async with EventPublisher(kafka, source="/upstream", idempotence=False, compression="zstd") as events:
        await events.publish(
            OcrCompleted(
                organization_id="local",
                document_id="offer-17",
                revision=1,
                document_name="Offer 17",
                tag_ids=["manual"],
                upload_date=datetime.now(UTC),
                # Twice, so that the batch gets smaller: others are not compressed.
                text="We offer forty widgets at three pounds each. We offer forty widgets at three pounds each.",
            )
        )
    async with EventSubscriber(kafka, group_id="upstream") as outcomes, asyncio.timeout(120):
        async for event in outcomes:
            if isinstance(event.outcome, DocumentIndexed) and event.outcome.document_id == "offer-17":
                print("indexed")
                return


asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserEnvironment]:
    """The package with the local stack, installed and running, with a knowledge base of one file."""
    user = UserEnvironment(tmp_path_factory.mktemp("system"))
    user.install(*(str(package.wheel) for package in published_packages()))
    try:
        user.run("kb", "up")
        (user.work / "manual").mkdir()
        (user.work / "manual" / "phones.html").write_text("<h1>Phones</h1><p>The help desk locks a lost phone.</p>")
        assert "1 searchable" in user.run("kb", "docs", "push", "manual")
        yield user
    finally:
        user.run("kb", "down")
        user.remove()


@pytest.fixture(scope="module")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserEnvironment]:
    user = UserEnvironment(tmp_path_factory.mktemp("publisher"))
    user.install(f"{wheel_of('kb-client')}[kafka]", str(wheel_of("kb-contracts")), str(wheel_of("kb-shared")))
    yield user
    user.remove()


@pytest.mark.parametrize("package", published_packages(), ids=lambda package: package.name)
def test_a_wheel_has_the_files_of_its_module_and_nothing_of_this_machine(package: PublishedPackage) -> None:
    with zipfile.ZipFile(package.wheel) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    of_the_installer = {name for name in contents if name.split("/")[0].endswith(".dist-info")}
    assert contents.keys() - of_the_installer == package.tracked_files()
    assert any(name.endswith("licenses/LICENSE") for name in of_the_installer)
    assert not [name for name, content in contents.items() if str(ROOT).encode() in content]


def test_a_file_that_was_pushed_is_found(system: UserEnvironment) -> None:
    assert "stack ready" in system.run("kb", "status")
    assert "The help desk locks a lost phone." in system.run("kb", "search", "lost phone", "--kb", "manual")
    assert "The help desk locks a lost phone." in system.run("kb", "ask", "Who locks a lost phone?", "--kb", "manual")


def test_an_upstream_service_publishes_an_event_and_hears_of_its_outcome(
    system: UserEnvironment, publisher: UserEnvironment
) -> None:
    ports = {
        process["name"]: process["port"] for process in json.loads(system.run("kb", "status", "--json"))["processes"]
    }
    printed = publisher.run("python", "-c", PUBLISH, f"127.0.0.1:{ports['broker']}")
    assert printed.strip() == "indexed"
    assert "forty widgets" in system.run("kb", "search", "widgets", "--kb", "manual")


def test_the_program_without_its_extra_says_how_to_install_it(publisher: UserEnvironment) -> None:
    assert "the extra cli of kb-client" in publisher.run("kb", "search", "widgets", status=1)


def test_a_module_without_its_extra_says_how_to_install_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    user = UserEnvironment(tmp_path_factory.mktemp("client"))
    user.install(str(wheel_of("kb-client")), str(wheel_of("kb-contracts")))
    try:
        program = """
        import kb_client.files.file_parser
        for module in ("events", "subscriber"):
            try:
                __import__(f"kb_client.{module}")
            except ImportError as error:
                print(error)
        """
        printed = user.run("python", "-c", textwrap.dedent(program))
        assert printed.count("the extra kafka of kb-client") == 2
    finally:
        user.remove()


def test_the_client_and_the_contracts_are_typed(publisher: UserEnvironment) -> None:
    program = """
    from importlib.resources import files
    for package in ("kb_client", "kb_contracts", "kb_shared"):
        assert files(package).joinpath("py.typed").is_file(), package
    """
    publisher.run("python", "-c", textwrap.dedent(program))
