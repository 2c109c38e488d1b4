"""What the package index shows of each package, and what the wheels need of each other."""

import re

import pytest

from kb_reconciler.export.kbx import WRITTEN_BY
from tests.packages.wheels import FOLDERS, ROOT, PublishedPackage, published_packages

PACKAGES = published_packages()
VERSION = PACKAGES[0].project["version"]
LINK = re.compile(r"\]\((?!https://)")


def test_every_package_of_the_workspace_is_published() -> None:
    found = {str(each.parent.relative_to(ROOT)) for each in ROOT.glob("*/pyproject.toml")}
    found |= {str(each.parent.relative_to(ROOT)) for each in ROOT.glob("services/*/pyproject.toml")}
    assert found == set(FOLDERS)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_says_what_it_is(package: PublishedPackage) -> None:
    project = package.project
    assert project["description"].startswith("Knowledge bases over documents: ")
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(project["classifiers"])
    assert project["keywords"]
    assert project["readme"]["text"].startswith(f"# {package.name}\n")
    assert not LINK.search(project["readme"]["text"]), "the index can't follow a link into the repository"
    assert (package.folder / package.module / "py.typed").is_file()
    assert (package.folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_packages_need_each_other_in_the_version_of_the_release(package: PublishedPackage) -> None:
    assert package.project["version"] == VERSION
    needed = [*package.project["dependencies"]]
    for requirements in package.project.get("optional-dependencies", {}).values():
        needed += [each for each in requirements if not each.startswith(f"{package.name}[")]
    assert [each for each in needed if each.startswith("kb-") and not each.endswith(f"=={VERSION}")] == []


def test_images_and_exports_name_the_version_of_the_packages() -> None:
    assert f"ARG VERSION={VERSION}\n" in (ROOT / "Dockerfile").read_text()
    assert f"knowledge-bases {VERSION}" == WRITTEN_BY
