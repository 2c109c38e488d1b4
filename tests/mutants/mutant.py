"""A fault that is planted in a copy of one package, and the tests that must notice it."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def in_file(file: str, *functions: str) -> tuple[str, ...]:
    """Return the names of test functions of one file as pytest knows them."""
    return tuple(f"{file}::{function}" for function in functions)


class NotPlantable(ValueError):
    """The text to replace is not in the file exactly once: the code has changed since the mutant was written."""


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    file: str
    """Relative to the repository; in the folder of a package, which is the first part that begins with `kb_`."""
    old: str
    new: str
    caught_by: tuple[str, ...]
    """Tests, as `file::function`; each of them must fail, of a parametrized one at least one case."""

    @property
    def package(self) -> Path:
        """The folder of the package, relative to the repository."""
        path = Path(self.file)
        return next(parent for parent in reversed(path.parents) if parent.name.startswith("kb_"))

    def changed(self) -> str:
        """Return the source of the file with the fault in it.

        Raises:
            NotPlantable: `old` is not there, or more than once.
        """
        source = (ROOT / self.file).read_text()
        if (times := source.count(self.old)) != 1:
            raise NotPlantable(f"{self.name}: the text to replace is in {self.file} {times} times")
        return source.replace(self.old, self.new)

    def plant(self, folder: Path) -> Mapping[str, str]:
        """Copy the package to `folder` with the fault in it, and return the environment in which the copy is imported.

        The repository is never written to, so that a run that is killed leaves nothing behind in it.
        """
        # With what is compiled: it holds for files with the same time and size, as all but the changed one have.
        shutil.copytree(ROOT / self.package, folder / self.package.name)
        (folder / self.package.name / Path(self.file).relative_to(self.package)).write_text(self.changed())
        # Before the installed packages, in this process and in those that it starts.
        paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
