"""Times of a pod's life, as the manifests in `k8s/` set them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

UPDATE_ORDER: Final[Sequence[str]] = (
    "kb_indexer",
    "kb_api",
    "kb_search",
    "kb_knowledge",
    "kb_knowledge.runner",
    "kb_reconciler",
)
"""Programs in the order of an update in docs/how-to/update.md; the way back has the opposite one."""
_SEPARATOR: Final = re.compile(r"[_.]")
REPLICAS: Final = 2
ENDPOINTS_LAG_S: Final = 2.0
"""Seconds for which requests still arrive at a pod that ends, until all balancers have learned of it. Kubernetes
promises no limit; most learn it within a second."""


@dataclass(frozen=True, slots=True)
class PodTimes:
    grace_s: float
    """`terminationGracePeriodSeconds`: from the decision to end the pod to SIGKILL."""
    pre_stop_s: float = 0.0
    """Sleep of the `preStop` hook, between this decision and SIGTERM."""
    min_ready_s: float = 0.0
    """`minReadySeconds`: pause between a new replica that is ready and the end of an old one."""


POD_TIMES: Final[Mapping[str, PodTimes]] = {
    "kb_api": PodTimes(grace_s=75, pre_stop_s=10),
    "kb_search": PodTimes(grace_s=150, pre_stop_s=10),
    "kb_indexer": PodTimes(grace_s=75, min_ready_s=15),
    "kb_knowledge": PodTimes(grace_s=75, pre_stop_s=10),
    "kb_knowledge.runner": PodTimes(grace_s=60),
    "kb_reconciler": PodTimes(grace_s=75),
}


def deployment_of(program: str) -> str:
    """Return the name of the Deployment of a program."""
    return _SEPARATOR.sub("-", program)
