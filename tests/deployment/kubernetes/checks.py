"""All checks of the manifests of Kubernetes."""

from collections.abc import Callable, Iterator
from typing import Final

from tests.deployment.kubernetes.check_commands import check_commands
from tests.deployment.kubernetes.check_monitoring import check_monitoring
from tests.deployment.kubernetes.check_network import check_network
from tests.deployment.kubernetes.check_routing import check_routing
from tests.deployment.kubernetes.check_scaling import check_scaling
from tests.deployment.kubernetes.check_schemas import check_schemas
from tests.deployment.kubernetes.check_settings import check_settings
from tests.deployment.kubernetes.check_workloads import check_workloads
from tests.deployment.kubernetes.manifests import ManifestFinding, Manifests

CHECKS: Final[tuple[Callable[[Manifests], Iterator[ManifestFinding]], ...]] = (
    check_schemas,
    check_workloads,
    check_commands,
    check_settings,
    check_routing,
    check_network,
    check_scaling,
    check_monitoring,
)


def find_faults(manifests: Manifests) -> list[ManifestFinding]:
    """Return what is wrong with the objects of an overlay."""
    return [finding for check in CHECKS for finding in check(manifests)]
