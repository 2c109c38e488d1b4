"""Limits the CPU time of the parser process, which the system kills when it is used up."""

import math
import time
from contextlib import suppress

from kb_client.files.limits import ParseLimits


def allow_cpu(limits: ParseLimits) -> None:
    """Allow what comes next its CPU time on top of what the process has used."""
    # Windows has no such limit; there, only the time on the clock is limited.
    with suppress(ImportError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + limits.cpu_s), most))
