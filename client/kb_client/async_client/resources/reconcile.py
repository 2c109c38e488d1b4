from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset
from kb_contracts.api.reconcile import PassList, PassView, PlanList, PlanView, PlanWithRepairs, RepairView


class AsyncReconcile(AsyncResource):
    """Passes and plans of the reconciler, which repairs drift."""

    @operation
    def start(self, *, dry_run: bool | Unset = UNSET) -> ApiCall[PlanView]:
        """Compare all knowledge bases with their documents, and repair what differs."""
        return ApiCall("POST", "/reconcile", PlanView, query={"dry_run": dry_run})

    @operation
    def apply_plan(self, plan_id: str) -> ApiCall[PlanView]:
        """Make the repairs of a plan that waits for it."""
        return ApiCall("POST", "/reconcile/plans/{plan_id}/apply", PlanView, ids={"plan_id": plan_id})

    @listing
    def get_plan(
        self, plan_id: str, *, skip: int | None = None, limit: int | None = None
    ) -> PageCall[PlanWithRepairs, RepairView]:
        """Return a plan with a page of its repairs."""
        return PageCall(
            "GET",
            "/reconcile/plans/{plan_id}",
            PlanWithRepairs,
            ids={"plan_id": plan_id},
            query={"skip": skip, "limit": limit},
            items=lambda page: page.repairs,
        )

    @listing
    def list_plans(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[PlanList, PlanView]:
        """Return a page of the plans, newest first."""
        return PageCall(
            "GET",
            "/reconcile/plans",
            PlanList,
            query={"skip": skip, "limit": limit},
            items=lambda page: page.plans,
        )

    @listing
    def list_passes(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[PassList, PassView]:
        """Return a page of the passes, newest first."""
        return PageCall(
            "GET",
            "/reconcile/passes",
            PassList,
            query={"skip": skip, "limit": limit},
            items=lambda page: page.passes,
        )
