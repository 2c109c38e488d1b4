"""The jars of the test cluster are those that were reviewed, and what is missing to get them is named."""

import hashlib
from pathlib import Path

import pytest

from kb_local.errors import UnusableServer
from tests.kafka_cluster import jars


@pytest.fixture
def one_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only jar that is wanted, in a cache that has it."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "a.jar").write_bytes(b"as reviewed")
    hashes = tmp_path / "jars.sha256"
    hashes.write_text(f"{hashlib.sha256(b'as reviewed').hexdigest()}  a.jar\n")
    monkeypatch.setattr(jars, "HASHES", hashes)
    return cache / "a.jar"


def test_only_the_jars_that_were_reviewed_are_run(one_jar: Path) -> None:
    one_jar.with_name("b.jar").write_bytes(b"other content")
    assert jars.class_path(one_jar.parent) == str(one_jar)


def test_a_jar_with_another_hash_is_refused_by_name(one_jar: Path) -> None:
    one_jar.write_bytes(b"something else")
    with pytest.raises(UnusableServer, match=r"a\.jar has SHA-256"):
        jars.class_path(one_jar.parent)


def test_missing_maven_is_named_with_the_remedy(one_jar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_jar.unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnusableServer, match="apt-get install maven"):
        jars.class_path(one_jar.parent)


def test_missing_java_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UnusableServer, match="apt-get install openjdk-17"):
        jars.java()


def test_java_that_is_too_old_for_kafka_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UnusableServer, match=r"is 11\.0\.2"):
        jars.java()
