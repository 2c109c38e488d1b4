"""`make security`: looks for secrets and unsafe code, and writes a software bill of materials (SBOM) per lock file."""

import argparse
import json
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TOOLS: Final = ROOT / ".venv-security" / "bin"
SBOMS: Final = ROOT / ".security"
CODE: Final = ("services", "shared", "contracts", "client", "local", "benchmarks")
RULES: Final = ROOT / "security" / "semgrep"
OFFLINE: Final = ("--metrics=off", "--disable-version-check")


class Found(Exception):
    """A check found something. The message is the output of its tool."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: str
    found: str | None
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m security", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args()
    results = [_run(name, check) for name, check in CHECKS.items()]
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        _print_table(results)
    return 1 if any(result.found for result in results) else 0


def _run(name: str, check: Callable[[], None]) -> CheckResult:
    print(f"{name} ...", file=sys.stderr)
    began = perf_counter()
    found = None
    try:
        check()
    except Found as error:
        found = str(error)
    return CheckResult(name, found, round(perf_counter() - began, 1))


def _print_table(results: list[CheckResult]) -> None:
    for result in results:
        if result.found:
            print(f"\n{result.check}:\n{result.found}\n")
    for result in results:
        print(f"{'found something' if result.found else 'ok':16} {result.seconds:6.1f} s  {result.check}")


def _call(tool: str, *arguments: str | Path, cwd: Path = ROOT) -> str:
    """Run a tool and return its output.

    Raises:
        Found: the tool ended with another status than 0.
    """
    command = [TOOLS / tool, *arguments]
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Found(done.stdout.strip() or f"{tool} ended with {done.returncode}")
    return done.stdout


def find_secrets_in_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # A copy of what is tracked: .venv and other ignored folders contain examples of keys.
        _export_tracked_files(Path(folder))
        _gitleaks("dir", Path(folder))


def _export_tracked_files(folder: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(
        ["git", "checkout-index", "-z", "--stdin", f"--prefix={folder}/"], cwd=ROOT, input=listed.stdout, check=True
    )


def find_secrets_in_history() -> None:
    _gitleaks("git", ROOT)


def find_planted_secrets() -> None:
    """Check that our rules find keys of this system.

    Raises:
        Found: a rule did not find its planted key.
    """
    planted = {
        "kb-api-key": f'key = "kb_{secrets.token_hex(6)}_{secrets.token_hex(24)}"',
        "kb-provider-key-ring": f'KB_PROVIDER_KEYS="2026:{"Q7x" * 14}A="',
    }
    with tempfile.TemporaryDirectory() as folder:
        for rule, line in planted.items():
            (Path(folder) / f"{rule}.py").write_text(line)
        try:
            _gitleaks("dir", Path(folder))
        except Found as found:
            output = str(found)
        else:
            output = ""
    if missed := planted.keys() - set(re.findall(r"RuleID:\s+(\S+)", output)):
        raise Found(f"rules of security/gitleaks.toml that do not find their planted key: {', '.join(sorted(missed))}")


def _gitleaks(source: str, folder: Path) -> None:
    config = ROOT / "security" / "gitleaks.toml"
    _call("gitleaks", source, ".", "--no-banner", "--no-color", "--redact", "--verbose", "--config", config, cwd=folder)


def find_unsafe_calls() -> None:
    _call("bandit", "-q", "-r", "-c", ROOT / "security" / "bandit.yml", *CODE)


def check_rules() -> None:
    """Check on examples that each rule of ours finds what it should, and only that."""
    _call("semgrep", "--test", *OFFLINE, ".", cwd=RULES)


def find_violations_of_rules() -> None:
    _call("semgrep", "scan", *OFFLINE, "--error", "--quiet", "--config", RULES, *CODE)


def write_sboms() -> None:
    """Write a CycloneDX document for each lock file, and check that it contains every pinned package."""
    SBOMS.mkdir(exist_ok=True)
    for lock in sorted([ROOT / "requirements.lock", *(ROOT / "images").glob("*.lock")]):
        target = SBOMS / f"{lock.stem}.cdx.json"
        _call("cyclonedx-py", "requirements", lock, "--output-reproducible", "--output-file", target)
        listed = {component["name"].lower() for component in json.loads(target.read_text())["components"]}
        pinned = {line.partition("==")[0].lower() for line in lock.read_text().splitlines() if "==" in line[:80]}
        if missing := pinned - listed:
            raise Found(f"{target.name} lacks {', '.join(sorted(missing))}")


CHECKS: Final = {
    "secrets in files (gitleaks)": find_secrets_in_files,
    "secrets in the history (gitleaks)": find_secrets_in_history,
    "planted keys are found (gitleaks)": find_planted_secrets,
    "unsafe calls (bandit)": find_unsafe_calls,
    "our rules on their examples (semgrep)": check_rules,
    "our rules on the code (semgrep)": find_violations_of_rules,
    "bills of materials in .security/ (CycloneDX)": write_sboms,
}

if __name__ == "__main__":
    sys.exit(main())
