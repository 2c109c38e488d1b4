"""All mutants."""

from typing import Final

from tests.mutants import (
    backing_up,
    calling,
    checking_knowledge,
    counting_work,
    curating,
    indexing,
    limiting,
    messaging,
    moving,
    outcomes,
    paying,
    pushing,
    reading_records,
    reading_sources,
    reading_tables,
    reconciling,
    refusing,
    searching,
    tenancy,
    tracing,
    upgrading,
    waking,
)
from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *calling.MUTANTS,
    *checking_knowledge.MUTANTS,
    *counting_work.MUTANTS,
    *curating.MUTANTS,
    *indexing.MUTANTS,
    *limiting.MUTANTS,
    *messaging.MUTANTS,
    *moving.MUTANTS,
    *outcomes.MUTANTS,
    *paying.MUTANTS,
    *pushing.MUTANTS,
    *backing_up.MUTANTS,
    *reading_records.MUTANTS,
    *reading_sources.MUTANTS,
    *reading_tables.MUTANTS,
    *reconciling.MUTANTS,
    *refusing.MUTANTS,
    *searching.MUTANTS,
    *tenancy.MUTANTS,
    *tracing.MUTANTS,
    *upgrading.MUTANTS,
    *waking.MUTANTS,
)
