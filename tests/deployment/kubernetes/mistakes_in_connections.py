"""Mistakes in Services, the Ingress and NetworkPolicies."""

from typing import Final

from tests.deployment.kubernetes.planting import (
    INDEXER,
    INGRESS,
    RUNNER,
    SEARCH,
    PlantedMistake,
    annotate,
    in_object,
    of_ingress,
    of_policy,
    selected,
    without,
)

ROUTING: Final = [
    PlantedMistake("missing-service", without("Service", "kb-reconciler"), "Service kb-reconciler", "it is missing"),
    PlantedMistake(
        "service-selects-nothing",
        in_object("Service", "kb-reconciler", lambda each: each["spec"]["selector"].update(tier="web")),
        "Service kb-reconciler",
        "it selects no pods",
    ),
    PlantedMistake(
        "target-port",
        in_object("Service", "kb-reconciler", lambda each: each["spec"]["ports"][0].update(targetPort="web")),
        "Service kb-reconciler",
        "targetPort 'web'",
    ),
    PlantedMistake(
        "port-of-backend",
        of_ingress(lambda paths: paths[0]["backend"]["service"]["port"].update(name="web")),
        INGRESS,
        "port of Service kb-search 'web'",
    ),
    PlantedMistake(
        "prefix", of_ingress(lambda paths: paths[3].update(pathType="Prefix")), INGRESS, "is of type Prefix"
    ),
    PlantedMistake(
        "no-regular-expressions",
        in_object(
            "Ingress", "knowledge-bases", lambda each: each["metadata"]["annotations"].pop("nginx.org/path-regex")
        ),
        INGRESS,
        "nginx.org/path-regex is missing",
    ),
    PlantedMistake("small-bodies", annotate("nginx.org/client-max-body-size", "8m"), INGRESS, "bodies have at most"),
    PlantedMistake("impatient-ingress", annotate("nginx.org/proxy-read-timeout", "60s"), INGRESS, "pause for 60 s"),
    PlantedMistake("buffering", annotate("nginx.org/proxy-buffering", "True"), INGRESS, "answers are buffered"),
    PlantedMistake(
        "no-tls",
        in_object("Ingress", "knowledge-bases", lambda each: each["spec"].pop("tls")),
        INGRESS,
        "TLS is for []",
    ),
    PlantedMistake("no-ingress", without("Ingress", "knowledge-bases"), "Ingress", "there are 0"),
]

ROUTES: Final = [
    PlantedMistake("metrics-from-outside", of_ingress(lambda paths: paths[-1].update(path="/[a-z.]+$")), INGRESS, "/"),
    PlantedMistake("everything", of_ingress(lambda paths: paths[6].update(path="/")), INGRESS, "goes to kb-api"),
    PlantedMistake("runs-go-to-kb-api", of_ingress(lambda paths: paths.pop(0)), INGRESS, "goes to kb-api"),
    PlantedMistake("searches-go-to-kb-api", of_ingress(lambda paths: paths.pop(1)), INGRESS, "/search goes to kb-api"),
    PlantedMistake("entries-go-to-kb-api", of_ingress(lambda paths: paths.pop(4)), INGRESS, "goes to kb-api"),
    PlantedMistake("no-mcp", of_ingress(lambda paths: paths.pop(5)), INGRESS, "/mcp goes to no service"),
    PlantedMistake(
        "too-much-to-search",
        of_ingress(lambda paths: paths[1].update(path="/v0/orgs/[^/]+/knowledge-bases/.+/search")),
        INGRESS,
        "goes to ",
    ),
    PlantedMistake(
        "mcp-of-an-organization-goes-to-kb-api",
        of_ingress(lambda paths: paths[0].update(path=paths[0]["path"].replace("mcp|", ""))),
        INGRESS,
        "/v0/orgs/acme/mcp goes to kb-api",
    ),
    PlantedMistake(
        "health-from-outside",
        of_ingress(lambda paths: paths[-1].update(path="/(openapi.json|readyz)$")),
        INGRESS,
        "/readyz goes",
    ),
    PlantedMistake(
        "health-with-a-slash-from-outside",
        of_ingress(lambda paths: paths[-1].update(path="/(openapi.json|readyz/)$")),
        INGRESS,
        "/readyz/ goes to kb-api",
    ),
    PlantedMistake(
        "health-in-capitals-from-outside",
        of_ingress(lambda paths: paths[-1].update(path="/(openapi.json|METRICS)$")),
        INGRESS,
        "/METRICS goes to kb-api",
    ),
]

NETWORK: Final = [
    PlantedMistake(
        "no-default-deny", without("NetworkPolicy", "default-deny"), "NetworkPolicy default-deny", "no policy denies"
    ),
    PlantedMistake(
        "search-to-kafka",
        of_policy("to-kafka", lambda spec: selected(spec).append("kb-search")),
        SEARCH,
        "allows port 9093",
    ),
    PlantedMistake(
        "reconciler-to-providers",
        of_policy("to-providers", lambda spec: selected(spec).append("kb-reconciler")),
        "Deployment kb-reconciler",
        "allows port 443",
    ),
    PlantedMistake(
        "entries-to-sources",
        of_policy("to-sources", lambda spec: selected(spec).append("kb-knowledge")),
        "Deployment kb-knowledge",
        "allows port 80",
    ),
    PlantedMistake(
        "runner-to-kafka",
        of_policy("to-kafka", lambda spec: selected(spec).append("kb-knowledge-runner")),
        RUNNER,
        "allows port 9093",
    ),
    PlantedMistake(
        "runner-to-our-own-network",
        of_policy("to-sources", lambda spec: spec["egress"][0]["to"][0]["ipBlock"]["except"].remove("10.0.0.0/8")),
        "NetworkPolicy to-sources",
        "10.1.2.3",
    ),
    PlantedMistake(
        "backup-without-mongodb",
        of_policy("to-mongodb", lambda spec: selected(spec).remove("kb-backup")),
        "CronJob kb-backup",
        "no NetworkPolicy allows port 27017",
    ),
    PlantedMistake(
        "typo-in-policy",
        of_policy("to-mongodb", lambda spec: selected(spec).append("kb-serach")),
        "NetworkPolicy to-mongodb",
        "'kb-serach'",
    ),
    PlantedMistake(
        "open-policy",
        of_policy("to-mongodb", lambda spec: spec["egress"][0].pop("to")),
        "NetworkPolicy to-mongodb",
        "every address",
    ),
    PlantedMistake(
        "metadata-service",
        of_policy(
            "to-providers", lambda spec: spec["egress"][0]["to"][0]["ipBlock"]["except"].remove("169.254.0.0/16")
        ),
        "NetworkPolicy to-providers",
        "169.254.169.254",
    ),
    PlantedMistake(
        "indexer-from-outside",
        of_policy("from-ingress-controller", lambda spec: selected(spec).append("kb-indexer")),
        INDEXER,
        "connections are allowed from nginx-ingress",
    ),
    PlantedMistake(
        "search-is-not-scraped",
        of_policy("from-prometheus", lambda spec: selected(spec).remove("kb-search")),
        SEARCH,
        "connections are allowed from",
    ),
    PlantedMistake(
        "port-of-policy",
        of_policy("from-ingress-controller", lambda spec: spec["ingress"][0]["ports"][0].update(port="web")),
        "NetworkPolicy from-ingress-controller",
        "port 'web'",
    ),
]
