"""What the clients are is pinned, and the page names the same versions."""

import json
import re
from typing import Final

from tests.producers.clients import HERE, ROOT
from tests.producers.page import PAGE

LOCK: Final = json.loads((HERE / "node/package-lock.json").read_text())["packages"]
NODE: Final = json.loads((HERE / "node/package.json").read_text())["dependencies"]
GO: Final = dict(re.findall(r"^(?:require |\t)(\S+) v(\S+)", (HERE / "go/go.mod").read_text(), re.MULTILINE))
REQUIREMENTS: Final = (ROOT / "requirements-producers.in").read_text()
PYTHON: Final = dict(line.split("==") for line in REQUIREMENTS.splitlines() if "==" in line)
POM: Final = (HERE.parent / "kafka_cluster/pom.xml").read_text()


def test_packages_of_node_are_exact_and_have_hashes_and_no_addresses() -> None:
    assert all(re.fullmatch(r"[\d.]+", version) for version in NODE.values())
    assert [name for name, package in LOCK.items() if "resolved" in package] == []
    assert [name for name, package in LOCK.items() if name and "integrity" not in package] == []


def test_modules_of_go_have_hashes() -> None:
    hashes = (HERE / "go/go.sum").read_text()
    assert GO
    assert [name for name, version in GO.items() if f"{name} v{version} h1:" not in hashes] == []


def test_packages_of_python_have_hashes_and_no_addresses() -> None:
    lock = (ROOT / "requirements-producers.lock").read_text()
    assert "://" not in lock
    for name, version in PYTHON.items():
        assert f"{name}=={version} \\\n    --hash=sha256:" in lock


def test_the_page_names_the_versions_that_its_programs_are_run_with() -> None:
    page = PAGE.read_text(encoding="utf-8")
    [java] = re.findall(r"<artifactId>kafka_[\d.]+</artifactId>\s*<version>(.+)</version>", POM)
    assert f"kafka-clients {java} with Jackson" in page
    assert f"confluent-kafka {PYTHON['confluent-kafka']}" in page
    assert f"cloudevents {PYTHON['cloudevents']} with confluent-kafka" in page
    assert f"franz-go {GO['github.com/twmb/franz-go'].rpartition('.')[0]}:" in page
    assert f"kafkajs {NODE['kafkajs']}" in page
    assert f"cloudevents {NODE['cloudevents']} with kafkajs" in page
