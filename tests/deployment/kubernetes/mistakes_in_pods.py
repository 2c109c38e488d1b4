"""Mistakes in what runs in pods."""

from typing import Final

from tests.deployment.kubernetes.planting import (
    API,
    INDEXER,
    RUNNER,
    SEARCH,
    PlantedMistake,
    in_container,
    in_object,
    in_pod,
    in_settings,
    renamed,
    without,
)

WORKLOADS: Final = [
    PlantedMistake(
        "wrong-port",
        in_container("kb-api", lambda each: each["ports"][0].update(containerPort=8000)),
        API,
        "port http is 8000",
    ),
    PlantedMistake("port-setting", in_settings("kb-api-settings", KB_HTTP_PORT="9000"), API, "port http is 8080"),
    PlantedMistake(
        "missing-probe-route",
        in_container("kb-search", lambda each: each["livenessProbe"]["httpGet"].update(path="/health")),
        SEARCH,
        "livenessProbe asks /health",
    ),
    PlantedMistake(
        "liveness-depends-on-mongodb",
        in_container("kb-api", lambda each: each["livenessProbe"]["httpGet"].update(path="/readyz")),
        API,
        "livenessProbe asks /readyz",
    ),
    PlantedMistake(
        "missing-probe",
        in_container("kb-indexer", lambda each: each.pop("readinessProbe")),
        INDEXER,
        "no readinessProbe",
    ),
    PlantedMistake(
        "unknown-port-of-probe",
        in_container("kb-api", lambda each: each["startupProbe"]["httpGet"].update(port="web")),
        API,
        "port of startupProbe 'web'",
    ),
    PlantedMistake(
        "impatient-readiness",
        in_container("kb-api", lambda each: each["readinessProbe"].update(timeoutSeconds=1)),
        API,
        "readinessProbe is too impatient",
    ),
    PlantedMistake(
        "latest", in_container("kb-api", lambda each: each.update(image="kb-api:latest")), API, "kb-api:latest"
    ),
    PlantedMistake(
        "image-of-another-service",
        in_container("kb-api", lambda each: each.update(image="registry.example.com/knowledge-bases/kb-search:0.1.0")),
        API,
        "kb-search:0.1.0",
    ),
    PlantedMistake(
        "two-versions",
        in_container("kb-api", lambda each: each.update(image="registry.example.com/knowledge-bases/kb-api:0.2.0")),
        "all workloads",
        "0.1.0, 0.2.0",
    ),
    PlantedMistake(
        "root",
        in_pod("kb-api", lambda each: each["securityContext"].update(runAsNonRoot=False)),
        API,
        "securityContext of the pod",
    ),
    PlantedMistake(
        "another-user",
        in_pod("kb-set-up", lambda each: each["securityContext"].update(runAsUser=1000), kind="Job"),
        "Job kb-set-up",
        "securityContext of the pod",
    ),
    PlantedMistake(
        "writable-root",
        in_container("kb-search", lambda each: each["securityContext"].update(readOnlyRootFilesystem=False)),
        SEARCH,
        "securityContext of the container",
    ),
    PlantedMistake(
        "capabilities",
        in_container("kb-search", lambda each: each["securityContext"].pop("capabilities")),
        SEARCH,
        "securityContext of the container",
    ),
    PlantedMistake(
        "token",
        in_pod("kb-api", lambda each: each.update(automountServiceAccountToken=True)),
        API,
        "automountServiceAccountToken is True",
    ),
    PlantedMistake(
        "service-links",
        in_pod("kb-api", lambda each: each.pop("enableServiceLinks")),
        API,
        "enableServiceLinks is None",
    ),
    PlantedMistake("host-network", in_pod("kb-api", lambda each: each.update(hostNetwork=True)), API, "hostNetwork"),
    PlantedMistake(
        "missing-tmp",
        in_container(
            "kb-api",
            lambda each: each["volumeMounts"].pop(
                next(n for n, mount in enumerate(each["volumeMounts"]) if mount["mountPath"] == "/tmp")
            ),
        ),
        API,
        "/tmp is not writable",
    ),
    PlantedMistake(
        "unknown-service-account", without("ServiceAccount", "kb-search"), SEARCH, "ServiceAccount 'kb-search'"
    ),
    PlantedMistake(
        "unknown-claim",
        in_object(
            "CronJob",
            "kb-backup",
            lambda each: next(
                volume["persistentVolumeClaim"].update(claimName="backups")
                for volume in each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"]
                if "persistentVolumeClaim" in volume
            ),
        ),
        "CronJob kb-backup",
        "PersistentVolumeClaim 'backups'",
    ),
    PlantedMistake(
        "no-memory-limit",
        in_container("kb-indexer", lambda each: each["resources"].pop("limits")),
        INDEXER,
        "resources",
    ),
    PlantedMistake(
        "request-above-limit",
        in_container("kb-indexer", lambda each: each["resources"]["requests"].update(memory="2Gi")),
        INDEXER,
        "more memory is requested",
    ),
    PlantedMistake(
        "short-grace",
        in_pod("kb-indexer", lambda each: each.update(terminationGracePeriodSeconds=60)),
        INDEXER,
        "terminationGracePeriodSeconds is 60",
    ),
    PlantedMistake(
        "no-pre-stop", in_container("kb-search", lambda each: each.pop("lifecycle")), SEARCH, "closes its port before"
    ),
    PlantedMistake(
        "missing-budget",
        without("PodDisruptionBudget", "kb-reconciler"),
        "Deployment kb-reconciler",
        "0 PodDisruptionBudgets",
    ),
    PlantedMistake(
        "blocking-budget",
        in_object("PodDisruptionBudget", "kb-search", lambda each: each["spec"].update(maxUnavailable=0)),
        "PodDisruptionBudget kb-search",
        "drained",
    ),
    PlantedMistake(
        "no-spread",
        in_pod("kb-search", lambda each: each["topologySpreadConstraints"].pop(0)),
        SEARCH,
        "topology.kubernetes.io/zone",
    ),
    PlantedMistake(
        "selector",
        in_object("Deployment", "kb-search", lambda each: each["spec"]["selector"]["matchLabels"].update(tier="web")),
        SEARCH,
        "does not select its pods",
    ),
    PlantedMistake("host-pid", in_pod("kb-search", lambda each: each.update(hostPID=True)), SEARCH, "hostPID is on"),
    PlantedMistake(
        "unknown-priority",
        in_pod("kb-search", lambda each: each.update(priorityClassName="kb-important")),
        SEARCH,
        "PriorityClass 'kb-important'",
    ),
    PlantedMistake(
        "pre-stop-with-a-shell",
        in_container("kb-search", lambda each: each["lifecycle"]["preStop"].update(exec={"command": ["sleep", "10"]})),
        SEARCH,
        "preStop runs a program",
    ),
    PlantedMistake(
        "unknown-config-map",
        in_container("kb-search", lambda each: each["envFrom"].append({"configMapRef": {"name": "kb-serach"}})),
        SEARCH,
        "ConfigMap 'kb-serach'",
    ),
    PlantedMistake(
        "unknown-volume",
        in_container("kb-search", lambda each: each["volumeMounts"].append({"name": "cache", "mountPath": "/cache"})),
        SEARCH,
        "volume 'cache'",
    ),
    PlantedMistake(
        "unknown-workload",
        lambda manifests: manifests.objects.append(renamed(manifests.get("Job", "kb-set-up"), "kb-setup")),
        "all workloads",
        "the workload 'kb-setup'",
    ),
    PlantedMistake(
        "unknown-command",
        in_container("kb-set-up", lambda each: each.update(args=["setup"]), kind="Job"),
        "Job kb-set-up",
        "kb has no command 'setup'",
    ),
    PlantedMistake(
        "unknown-option",
        in_container("kb-set-up", lambda each: each["args"].append("--wait"), kind="Job"),
        "Job kb-set-up",
        "kb set-up has no option --wait",
    ),
    PlantedMistake(
        "runner-without-its-program",
        in_container("kb-knowledge-runner", lambda each: each.pop("command")),
        RUNNER,
        "it replaces the command",
    ),
    PlantedMistake(
        "command-of-another-service",
        in_container("kb-search", lambda each: each.update(command=["python", "-m", "kb_api"])),
        SEARCH,
        "it replaces the command",
    ),
]
