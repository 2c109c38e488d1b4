"""Both HTTP services in this process, with an organization of each kind."""

from tests.isolation.conftest import tenants

__all__ = ["tenants"]
