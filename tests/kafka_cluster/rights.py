"""What principals may do on the test cluster: ACLs, made and taken away."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from aiokafka.conn import create_conn
from aiokafka.protocol.admin import DescribeAclsRequest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.kafka_cluster.cluster import KafkaBrokers
from tests.waiting import until

ANY = 1
"""In the filters of Kafka's protocol."""

Right = tuple[int, str, int, str, int]
"""Resource type, name, pattern type, principal and operation, as the protocol has them."""


@dataclass(frozen=True, slots=True)
class Acl:
    """Permission of a principal for an operation on a topic, a group or the cluster, from any host."""

    principal: str
    operation: AclOperation
    resource: ResourceType
    name: str
    prefixed: bool = False
    """True if it holds for every name that begins with `name`."""

    @property
    def binding(self) -> AclBinding:
        return AclBinding(*self._fields, AclPermissionType.ALLOW)

    @property
    def filter(self) -> AclBindingFilter:
        return AclBindingFilter(*self._fields, AclPermissionType.ALLOW)

    @property
    def _fields(self) -> tuple[ResourceType, str, ResourcePatternType, str, str, AclOperation]:
        pattern = ResourcePatternType.PREFIXED if self.prefixed else ResourcePatternType.LITERAL
        return self.resource, self.name, pattern, f"User:{self.principal}", "*", self.operation

    @property
    def right(self) -> Right:
        resource, name, pattern, principal, _, operation = self._fields
        return resource.value, name, pattern.value, principal, operation.value


async def grant(brokers: KafkaBrokers, acls: Iterable[Acl]) -> None:
    """Add ACLs; return when all running brokers go by them."""
    await grant_at(_addresses(brokers), acls)


async def grant_at(addresses: Sequence[str], acls: Iterable[Acl]) -> None:
    """As `grant`, for brokers at whose addresses all clients may do everything."""
    wanted = list(acls)
    admin = AdminClient({"bootstrap.servers": ",".join(addresses), "log_level": 0})
    for future in admin.create_acls([acl.binding for acl in wanted]).values():
        await asyncio.wrap_future(future)
    await _until_all(addresses, wanted, there=True)


async def revoke(brokers: KafkaBrokers, acls: Iterable[Acl]) -> None:
    """Take ACLs away; return when no running broker goes by them any more."""
    unwanted = list(acls)
    for future in brokers.admin.delete_acls([acl.filter for acl in unwanted]).values():
        await asyncio.wrap_future(future)
    await _until_all(_addresses(brokers), unwanted, there=False)


def _addresses(brokers: KafkaBrokers) -> list[str]:
    return [broker.bootstrap for broker in brokers.brokers if broker.running]


async def _until_all(addresses: Sequence[str], acls: list[Acl], *, there: bool) -> None:
    for address in addresses:
        what = f"{address} goes by the new ACLs"
        await until(partial(_knows, address, {acl.right for acl in acls}, there=there), what=what)


async def _knows(address: str, rights: set[Right], *, there: bool) -> bool:
    known = await _rights(address)
    return rights <= known if there else not rights & known


async def _rights(address: str) -> set[Right]:
    host, _, port = address.partition(":")
    connection = await create_conn(host, int(port))
    try:
        answer = await connection.send(DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY))
    finally:
        connection.close()
    return {
        (resource, name, pattern, principal, operation)
        for resource, name, pattern, acls in answer.resources
        for principal, _, operation, _ in acls
    }
