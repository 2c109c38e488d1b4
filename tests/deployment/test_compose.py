"""compose.yaml fits the code, and each mistake that is planted in it is reported."""

import re
import stat
from pathlib import Path

import pytest

from compose.write_env import write
from tests.deployment.compose_checks import ROOT, find_mistakes

COMPOSE = (ROOT / "compose.yaml").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def mistakes(compose: str = COMPOSE, *, example: str = EXAMPLE) -> list[str]:
    return find_mistakes(compose, example=example, dockerfile=DOCKERFILE)


def test_the_compose_file_has_no_mistake() -> None:
    assert mistakes() == []


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ('  healthcheck:\n    test: ["CMD", "python"', '  helthcheck:\n    test: ["CMD", "python"', "not valid"),
        ("service_completed_successfully", "service_complete", "not valid"),
        ('/opt/healthcheck.py"]', '/opt/check.py"]', "its health check is not that of the Dockerfile"),
        ("      KB_EMBEDDING_MODEL:", "      KB_EMBEDING_MODEL:", "KB_EMBEDING_MODEL is no setting of ApiSettings"),
        (
            "KB_CHAT_MODEL: ${KB_CHAT_MODEL:-gpt-4o-mini}",
            "KB_CHAT_MODEL: gpt-4",
            "kb-search: Value error, KB_CHAT_MODEL",
        ),
        ("  KB_KAFKA: kafka:9092\n", "", "kb-indexer: KB_KAFKA is missing"),
        ("KB_ENVIRONMENT: production", "KB_ENVIRONMENT: live", "environment can't be used"),
        ("x-http: &http\n  KB_API_KEY_PEPPER:", "x-http: &http\n  KB_API_PEPPER:", "KB_API_KEY_PEPPER is missing"),
        ('${KB_API_KEY_PEPPER:?run "make env" first, which writes .env}', "${KB_API_KEY_PEPPER:-x}", "is a secret"),
        ("${KB_LOG_LEVEL:-INFO}", "${KB_LEVEL:-INFO}", "${KB_LEVEL} is not in .env.example"),
        ("./compose/nginx.conf:/", "./compose/nginx.cfg:/", "./compose/nginx.cfg does not exist"),
        ("nginx.conf:ro", "nginx.conf", "is not mounted read-only"),
        ("- 127.0.0.1:${KB_PORT:-8080}:8080", "- ${KB_PORT:-8080}:8080", "to other machines"),
        ("  read_only: true\n", "", "its root file system is not read-only"),
        ("x-hardened: &hardened\n", "x-hardened: &hardened\n  privileged: true\n", "is privileged"),
        ('  profiles: [small, full]\n  user: "10001:10001"', '  profiles: [small, full]\n  user: "0:0"', "root"),
        ("image: nginx:1.28.0-alpine", "image: nginx:latest", "has no pinned version"),
        ("target: kb-search", "target: kb-serch", "is no stage of the Dockerfile"),
        ("prometheus: { condition", "promeheus: { condition", "promeheus, which does not exist"),
        ('    profiles: [full]\n    user: "472:0"', '    profiles: [small, full]\n    user: "472:0"', "profiles"),
        ("    command: [set-up,", "    command: [setup,", "set-up: runs"),
        ("  stop_grace_period: 60s\n\nx-conn", "\nx-conn", "kb-indexer: has no time to stop"),
        ("memory: 128m, ", "", "proxy: has no limits"),
        ("networks: [runner, sources]", "networks: [data, sources]", "kb-knowledge-runner: is in data, sources"),
        ("networks: [data]", "networks: [data, sources]", "kafka: is in the network of the addresses that users name"),
        ('  options: { max-size: 10m, max-file: "5" }\n', "", "its logs grow without a limit"),
    ],
)
def test_a_mistake_is_reported(old: str, new: str, finding: str) -> None:
    assert COMPOSE.count(old) >= 1
    found = mistakes(COMPOSE.replace(old, new, 1))
    assert any(finding in each for each in found), found


def test_a_variable_that_no_service_uses_is_reported() -> None:
    assert "KB_UNUSED of .env.example is used by no service" in mistakes(example=f"{EXAMPLE}KB_UNUSED=1\n")


def test_the_written_file_has_a_secret_of_its_own_in_each_place_and_is_not_overwritten(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for target in (first, second):
        write(ROOT / ".env.example", target)
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
    secrets = [
        re.findall(r"(?m)^([A-Z_]*(?:PASSWORD|PEPPER|SECRET|KEYS?))=(.+)$", file.read_text())
        for file in (first, second)
    ]
    assert len(secrets[0]) == EXAMPLE.count("=<random ")
    values = [value for found in secrets for _, value in found]
    assert len(set(values)) == len(values)
    assert not any("random" in value for value in values)
    with pytest.raises(FileExistsError):
        write(ROOT / ".env.example", first)
