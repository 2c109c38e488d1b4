"""What the API shows of a stored state is what is stored."""

from enum import StrEnum
from typing import Any, get_args

import pytest

from kb_contracts.api.api_keys import KeyScope
from kb_contracts.api.jobs import JobKind
from kb_contracts.api.knowledge_bases import ShownStatus
from kb_contracts.api.memberships import OpenJobStatus
from kb_contracts.api.reconcile import ShownPlanState
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.backfills import Kind
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.knowledge_bases import Status
from kb_shared.mongo.reconcile_plans import PlanState


@pytest.mark.parametrize(
    ("shown", "stored"),
    [(KeyScope, Scope), (JobKind, Kind), (OpenJobStatus, IndexJobState), (ShownPlanState, PlanState)],
)
def test_every_stored_value_can_be_shown_and_no_other_is_promised(shown: Any, stored: type[StrEnum]) -> None:
    assert set(get_args(shown)) == {str(value) for value in stored}


def test_every_status_of_a_knowledge_base_is_shown_but_that_of_its_deletion() -> None:
    assert set(get_args(ShownStatus)) == {str(status) for status in Status} - {"deleting"}
