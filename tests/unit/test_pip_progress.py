import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "scripts" / "pip_progress.py"
PIP = """
import sys
for number in range(50):
    print(f"Collecting package-{number}==1.0 (from -r requirements.lock (line {number}))")
    print(f"  Downloading package_{number}-1.0-py3-none-any.whl (1 kB)")
print("Ignoring uvloop: markers don't match your environment")
print("Installing collected packages: package-0, package-1", flush=True)
sys.exit(int(sys.argv[1]))
"""


def install(folder: Path, *, status: int) -> "subprocess.CompletedProcess[str]":
    requirements = folder / "requirements.lock"
    requirements.write_text("".join(f"package-{number}==1.0 \\\n    --hash=sha256:{number}\n" for number in range(51)))
    command = [sys.executable, str(PROGRAM), str(requirements), sys.executable, "-c", PIP, str(status)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_installation_shows_its_progress(tmp_path: Path) -> None:
    installed = install(tmp_path, status=0)
    assert (installed.returncode, installed.stderr) == (0, "")
    assert installed.stdout.splitlines() == [
        "  25 of 51: package-24",
        "  50 of 51: package-49",
        "  fetched 51 of 51, unpacking them ...",
    ]


def test_an_installation_that_fails_shows_what_pip_said(tmp_path: Path) -> None:
    failed = install(tmp_path, status=3)
    assert failed.returncode == 3
    assert "Downloading package_7-1.0-py3-none-any.whl" in failed.stderr
