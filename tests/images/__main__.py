"""`python -m tests.images`, or `make images`: build all images, list what is in each, run the system out of them.

Prints a table, and writes .images/report.json and .images/sbom/<image>.cdx.json. Needs root, buildah and debootstrap.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Final

from kb_local.errors import LocalStackError
from tests.images import buildah
from tests.images.bill_of_materials import find_differences
from tests.images.buildah import FOLDER, ROOT, BuiltImage
from tests.images.smoke import SERVICES, ImageUnfit, try_images

IMAGES: Final = (*SERVICES, "kb-admin")


def main() -> None:
    if subprocess.run([ROOT / "scripts" / "prepare-images"], check=False).returncode:
        sys.exit(1)
    began = monotonic()
    try:
        base = buildah.choose_base()
        _say(f"base: {base}")
        images = [_build(name, base) for name in IMAGES]
        with tempfile.TemporaryDirectory(prefix="kb-images-") as home:
            asyncio.run(try_images(Path(home), IMAGES))
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: {error.cmd} failed; its output is in {FOLDER / 'build.log'}. Its end:\n{error.stderr}")
    except (ImageUnfit, LocalStackError) as error:
        sys.exit(f"error: {error}")
    _report(images, base=base, seconds=monotonic() - began)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # the output of this command


def _build(name: str, base: str) -> BuiltImage:
    _say(f"building {name} ...")
    seconds = buildah.build(name, base=base)
    image = buildah.measure(name, seconds=seconds)
    sbom = _list_contents(name, base)
    lock = (ROOT / "images" / f"{name}.lock").read_text()
    if differences := find_differences(sbom, lock):
        raise ImageUnfit(f"{name}: {'; '.join(differences)}")
    return image


def _list_contents(name: str, base: str) -> Path:
    buildah.build("sbom", base=base, arguments={"IMAGE": name})
    target = FOLDER / "sbom" / f"{name}.cdx.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    with buildah.mounted("sbom") as root:
        shutil.copyfile(root / "sbom.cdx.json", target)
    return target


def _report(images: Sequence[BuiltImage], *, base: str, seconds: float) -> None:
    report = {"base": base, "seconds": round(seconds, 1), "images": [asdict(image) for image in images]}
    (FOLDER / "report.json").write_text(json.dumps(report, indent=2))
    _say("image           built in  uncompressed  compressed  of these, own packages")
    for image in images:
        _say(
            f"{image.name:<14} {image.seconds:>7.0f} s {image.bytes_uncompressed / 1e6:>10.0f} MB"
            f" {sum(image.layers) / 1e6:>8.0f} MB {image.layers[-1] / 1e6:>21.2f} MB"
        )
    _say(f"all images are built, tried, and equal to their locks, in {seconds:.0f} s")


if __name__ == "__main__":
    main()
