"""The manifests of Kubernetes fit the code, and a mistake in them is found and named."""

import pytest

from tests.deployment.kubernetes.checks import find_faults
from tests.deployment.kubernetes.facts import SERVICES
from tests.deployment.kubernetes.manifests import OVERLAYS, ManifestFinding, render
from tests.deployment.kubernetes.mistakes_in_connections import NETWORK, ROUTES, ROUTING
from tests.deployment.kubernetes.mistakes_in_pods import WORKLOADS
from tests.deployment.kubernetes.mistakes_in_scaling import MONITORING, SCALING
from tests.deployment.kubernetes.mistakes_in_schemas import SCHEMAS
from tests.deployment.kubernetes.mistakes_in_settings import SETTINGS
from tests.deployment.kubernetes.planting import PlantedMistake

MISTAKES = [*SCHEMAS, *WORKLOADS, *SETTINGS, *ROUTING, *ROUTES, *NETWORK, *SCALING, *MONITORING]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_manifests_are_valid_and_fit_the_code(overlay: str) -> None:
    assert [str(finding) for finding in find_faults(render(overlay))] == []


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found_and_named(mistake: PlantedMistake) -> None:
    manifests = render(mistake.overlay)
    mistake.change(manifests)
    found = find_faults(manifests)
    assert [(finding.place, mistake.wrong in finding.wrong) for finding in found] == [(mistake.place, True)]


@pytest.mark.parametrize("name", SERVICES)
def test_a_missing_service_is_found(name: str) -> None:
    manifests = render("prod")
    manifests.objects.remove(manifests.get("Deployment", name))
    assert ManifestFinding(f"Deployment {name}", "it is missing", "a workload for each service and command") in (
        find_faults(manifests)
    )


def test_jobs_of_prometheus_have_the_names_of_the_services() -> None:
    manifests = render("prod")
    manifests.get("ServiceMonitor", "knowledge-bases")["spec"]["jobLabel"] = "app.kubernetes.io/part-of"
    wrong = [finding.wrong for finding in find_faults(manifests)]
    assert wrong == [f"the job of {name} is knowledge-bases" for name in SERVICES]
