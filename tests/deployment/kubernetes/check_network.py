"""Checks that the NetworkPolicies allow each pod the connections that it needs, and no other."""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Final

from kb_shared.kafka_connection.connection import DEFAULT_BOOTSTRAP_SERVERS
from tests.deployment.kubernetes.facts import PODS, SERVICES
from tests.deployment.kubernetes.manifests import (
    Manifest,
    ManifestFinding,
    Manifests,
    Workload,
    check_each,
    place_of,
    selects,
    values_of,
)

DNS_PORT: Final = 53
MONGODB_PORT: Final = 27017
WEB_PORT: Final = 80
HTTPS_PORT: Final = 443
PRIVATE: Final = ("10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.1.1", "fd00::1")
HTTP_PORT: Final = 8080
CALLERS: Final = {"kb-api": frozenset({"kb-search"}), "kb-knowledge": frozenset({"kb-search"})}
"""Pods that call a service of ours: kb-search carries out MCP tools with them."""
SCRAPING_NAMESPACE: Final = "monitoring"
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_NAME_LABEL: Final = "app.kubernetes.io/name"


def check_network(manifests: Manifests) -> Iterator[ManifestFinding]:
    policies = manifests.of_kind("NetworkPolicy")
    names = [each.name for each in manifests.workloads]
    if not any(_denies_everything(each) for each in policies):
        yield ManifestFinding(
            "NetworkPolicy default-deny", "no policy denies what the others do not allow", "one for all pods"
        )
    for policy in policies:
        yield from check_each(
            values_of(policy["spec"]["podSelector"]), names, place=place_of(policy), what="the workload"
        )
        yield from _check_peers(policy)
        yield from _check_ports(manifests, policy)
    for workload in manifests.workloads:
        if workload.name in PODS:
            own = [each for each in policies if selects(each["spec"]["podSelector"], workload.labels)]
            yield from _check_outgoing(manifests, workload, own)
            yield from _check_incoming(workload, own)


def _check_outgoing(manifests: Manifests, workload: Workload, policies: list[Manifest]) -> Iterator[ManifestFinding]:
    facts = PODS[workload.name]
    allowed = {
        port["port"] for policy in policies for rule in policy["spec"].get("egress", []) for port in rule["ports"]
    }
    needed = {DNS_PORT: "DNS"}
    if facts.uses_mongodb:
        needed[MONGODB_PORT] = "MongoDB"
    if facts.uses_kafka:
        servers = manifests.environment_of(workload).get("KB_KAFKA", DEFAULT_BOOTSTRAP_SERVERS)
        needed |= {int(server.rpartition(":")[2]): "Kafka" for server in servers.split(",")}
    if facts.calls_providers:
        needed[HTTPS_PORT] = "providers"
    if facts.reads_sources:
        needed |= dict.fromkeys((WEB_PORT, HTTPS_PORT), "sources")
    if (base_url := manifests.environment_of(workload).get("KB_BASE_URL")) is not None:
        needed[HTTPS_PORT if base_url.startswith("https:") else WEB_PORT] = "the API"
    if {"KB_API_URL", "KB_KNOWLEDGE_URL"} & manifests.environment_of(workload).keys():
        needed[HTTP_PORT] = "kb-api and kb-knowledge"
    for port, what in needed.items():
        if port not in allowed:
            yield ManifestFinding(workload.place, f"no NetworkPolicy allows port {port}", f"a connection to {what}")
    for port in sorted(allowed - needed.keys()):
        yield ManifestFinding(workload.place, f"a NetworkPolicy allows port {port}", "only connections that it needs")


def _check_incoming(workload: Workload, policies: list[Manifest]) -> Iterator[ManifestFinding]:
    rules = [rule for policy in policies for rule in policy["spec"].get("ingress", [])]
    peers = [peer for rule in rules for peer in rule["from"]]
    # A peer without a namespace is a pod of ours.
    pods = {peer["podSelector"]["matchLabels"][_NAME_LABEL] for peer in peers if "namespaceSelector" not in peer}
    if pods != CALLERS.get(workload.name, set()):
        wrong = f"connections are allowed from {', '.join(sorted(pods)) or 'no pods'}"
        yield ManifestFinding(workload.place, wrong, "kb-search for kb-api and kb-knowledge, and none for the others")
    namespaces = {
        peer["namespaceSelector"].get("matchLabels", {}).get(_NAMESPACE_LABEL)
        for peer in peers
        if "namespaceSelector" in peer
    }
    callers = namespaces - {SCRAPING_NAMESPACE}
    if (SCRAPING_NAMESPACE in namespaces) != (workload.name in SERVICES):
        yield ManifestFinding(
            workload.place,
            f"connections are allowed from {', '.join(sorted(map(str, namespaces))) or 'nowhere'}",
            "the namespace of Prometheus for services, and for nothing else",
        )
    if bool(callers) != PODS[workload.name].serves_callers:
        wrong = f"connections are allowed from {', '.join(sorted(map(str, callers))) or 'no Ingress controller'}"
        yield ManifestFinding(workload.place, wrong, "the Ingress controller, for services that serve callers alone")


def _check_peers(policy: Manifest) -> Iterator[ManifestFinding]:
    """Check that a rule names its peers, and that the open one leaves out private addresses."""
    for rule in policy["spec"].get("egress", []):
        if not rule.get("to"):
            yield ManifestFinding(
                place_of(policy), "it allows connections to every address", "the addresses of the servers"
            )
        for block in (peer["ipBlock"] for peer in rule.get("to", []) if "ipBlock" in peer):
            if not {WEB_PORT, HTTPS_PORT} & {port["port"] for port in rule["ports"]}:
                continue
            for address in PRIVATE:
                if _allows(block, address):
                    yield ManifestFinding(
                        place_of(policy), f"it allows the private address {address}", "public addresses"
                    )


def _check_ports(manifests: Manifests, policy: Manifest) -> Iterator[ManifestFinding]:
    """Check that all pods of a policy have the ports that it opens."""
    pods = [each for each in manifests.workloads if selects(policy["spec"]["podSelector"], each.labels)]
    known = set.intersection(*(set(each.port_names) for each in pods)) if pods else set()
    opened = {port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
    yield from check_each(opened, known, place=place_of(policy), what="port")


def _allows(block: Manifest, address: str) -> bool:
    networks = [ip_network(block["cidr"]), *map(ip_network, block.get("except", []))]
    inside = [ip_address(address) in network for network in networks]
    return inside[0] and not any(inside[1:])


def _denies_everything(policy: Manifest) -> bool:
    spec = policy["spec"]
    return (
        spec["podSelector"] == {}
        and set(spec["policyTypes"]) == {"Ingress", "Egress"}
        and not spec.get("ingress")
        and not spec.get("egress")
    )
