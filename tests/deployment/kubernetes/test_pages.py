"""The pages about Kubernetes name the objects and figures of the manifests."""

import re
from typing import Final

import pytest

from tests.deployment.kubernetes.facts import SERVICES
from tests.deployment.kubernetes.manifests import NAME_LABEL, OVERLAYS, ROOT, render

UPDATE: Final = (ROOT / "docs/how-to/update.md").read_text()
DEPLOY: Final = (ROOT / "docs/how-to/deploy-on-kubernetes.md").read_text()
ORDER: Final = [
    "kb-set-up",
    "kb-indexer",
    "kb-api",
    "kb-search",
    "kb-knowledge",
    "kb-knowledge-runner",
    "kb-console",
    "kb-reconciler",
    "kb-backup",
]


def section(page: str, title: str) -> str:
    return page.partition(f"\n{title}\n")[2].partition("\n## ")[0]


def test_an_update_replaces_the_services_in_the_order_of_the_page() -> None:
    commands = section(UPDATE, "### On Kubernetes")
    assert re.findall(rf"-l {NAME_LABEL}=(\S+)", commands) == ORDER


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_update_applies_every_object(overlay: str) -> None:
    names = {each["metadata"].get("labels", {}).get(NAME_LABEL) for each in render(overlay).objects}
    assert names == {None, *ORDER}


def test_going_back_is_the_opposite_order() -> None:
    commands = section(UPDATE, "## Go back")
    assert re.findall(rf"-l {NAME_LABEL}=(\S+)", commands) == [name for name in reversed(ORDER) if name != "kb-set-up"]


@pytest.mark.parametrize("service", SERVICES)
def test_the_page_shows_the_resources_of_each_service(service: str) -> None:
    workload = render("prod").find_workload(service)
    assert workload is not None
    resources = workload.container["resources"]
    figures = (resources["requests"]["cpu"], resources["requests"]["memory"], resources["limits"]["memory"])
    row = next(line for line in DEPLOY.splitlines() if line.startswith(f"| {service} |"))
    assert tuple(cell.strip() for cell in row.split("|")[-4:-1]) == figures


def test_the_page_names_each_file_of_the_overlay_that_has_to_be_changed() -> None:
    files = {path.name for path in (ROOT / "k8s/overlays/prod").iterdir()}
    assert set(re.findall(r"^\| `([\w.-]+\.yaml)` \|", DEPLOY, re.MULTILINE)) == files
