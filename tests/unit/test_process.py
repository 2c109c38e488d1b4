import subprocess
import sys

SERVICE = """
import gc
from kb_shared import process

async def serve(stop):
    print(gc.get_freeze_count() > len(gc.get_objects()))

process.run(serve)
"""


def test_what_a_service_has_imported_is_never_gone_through_for_garbage() -> None:
    service = subprocess.run([sys.executable, "-c", SERVICE], capture_output=True, text=True, check=True)
    assert service.stdout == "True\n"
