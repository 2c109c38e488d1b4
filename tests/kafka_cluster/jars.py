"""The jars of Apache Kafka: fetched once by Maven as `pom.xml` lists them, and checked by hash before each use.

`python -m tests.kafka_cluster.jars` fetches and checks them, and prints what is missing with the remedy.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kb_local.errors import LocalStackError, UnusableServer

HERE: Final = Path(__file__).parent
POM: Final = HERE / "pom.xml"
HASHES: Final = HERE / "jars.sha256"
"""In the format of `sha256sum`."""
CACHE: Final = HERE.parents[1] / ".kafka" / "jars"
OLDEST_JAVA: Final = 17


def java() -> str:
    """Return the path of `java`.

    Raises:
        UnusableServer: none is on the PATH, or it is too old for Kafka.
    """
    found = shutil.which("java")
    remedy = f"install Java {OLDEST_JAVA} or newer: apt-get install openjdk-{OLDEST_JAVA}-jre-headless"
    if found is None:
        raise UnusableServer("Apache Kafka needs Java, and there is no `java` on the PATH", remedy=remedy)
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = answer.partition('version "')[2].partition('"')[0]
    if not version.split(".")[0].isdecimal() or int(version.split(".")[0]) < OLDEST_JAVA:
        raise UnusableServer(f"Apache Kafka needs Java {OLDEST_JAVA}; {found} is {version or answer}", remedy=remedy)
    return found


def class_path(cache: Path = CACHE) -> str:
    """Return the class path of a broker, after the jars were fetched if they are missing, and checked.

    Raises:
        UnusableServer: Maven is missing or fails, or a jar is not the one that `jars.sha256` names.
    """
    expected = expected_hashes(HASHES.read_text())
    if any(not (cache / name).exists() for name in expected):
        _fetch(cache)
    for name, expected_hash in expected.items():
        _check(cache / name, expected_hash)
    # By name: a jar that is in the folder for another reason is not run.
    return ":".join(str(cache / name) for name in expected)


def expected_hashes(lines: str) -> Mapping[str, str]:
    """Return the SHA-256 of each jar by its file name."""
    pairs = (line.split() for line in lines.splitlines())
    return {name: digest for digest, name in pairs}


def _fetch(cache: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise UnusableServer(
            f"the jars of Apache Kafka are not in {cache}, and there is no `mvn` on the PATH to fetch them",
            remedy="apt-get install maven",
        )
    print(f"fetching the jars of Apache Kafka (44 MB) into {cache} ...", file=sys.stderr)  # noqa: T201  # it takes a while
    command = [maven, "--quiet", "--batch-mode", "--strict-checksums", "--file", str(POM)]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={cache}"]
    done = subprocess.run([*command, *goal], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnusableServer(
            f"Maven did not fetch the jars of Apache Kafka:\n{done.stdout[-2000:]}{done.stderr[-2000:]}",
            remedy="see that Maven reaches a repository (a mirror is named in ~/.m2/settings.xml) and try again",
        )


def _check(jar: Path, expected_hash: str) -> None:
    if not jar.exists():
        raise UnusableServer(f"Maven fetched no {jar.name}", remedy=f"compare {POM} with {HASHES}")
    with jar.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected_hash:
        raise UnusableServer(
            f"{jar} has SHA-256 {found} instead of {expected_hash}",
            remedy="delete it and try again; if it is the same again, the repository that Maven uses has another file",
        )


def main() -> None:
    try:
        java()
        class_path()
    except LocalStackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
