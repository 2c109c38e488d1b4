import json
import subprocess
import sys
from pathlib import Path

import pytest

FAILING_LIBRARY = """
import logging
from kb_shared.observability import logs

def connect():
    raise ValueError("a document's text")

logs.configure("kb-indexer")
try:
    connect()
except ValueError:
    logging.getLogger("aiokafka.conn").exception("Unexpected exception in %s", "AIOKafkaConnection")
"""
WORKING_SERVICE = """
import logging
import structlog
from kb_shared.observability import logs

logs.configure("kb-indexer")
for _ in range(3):
    structlog.get_logger().info("document.indexed", text="x" * 100_000)
    logging.getLogger("aiokafka.conn").error("Unable to connect")
print("still working", flush=True)
"""


def run(program: str, *, stderr: int = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", program]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)


def test_an_exception_that_a_library_logs_is_one_line_of_json_that_names_it_without_quoting_it() -> None:
    written = run(FAILING_LIBRARY).stderr
    (line,) = written.splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["error"]) == ("Unexpected exception in AIOKafkaConnection", "ValueError")
    assert entry["at"][-1].endswith(" connect")
    assert "document's text" not in written


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is a thing of Linux")
def test_no_work_fails_because_a_full_disk_takes_no_log() -> None:
    with Path("/dev/full").open("w") as full:
        service = run(WORKING_SERVICE, stderr=full.fileno())
    assert service.stdout == "still working\n"
