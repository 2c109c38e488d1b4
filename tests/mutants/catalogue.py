"""All mutants."""

from typing import Final

from tests.mutants import indexing, limiting, messaging, paying, reconciling, searching, tenancy, upgrading
from tests.mutants.mutant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *indexing.MUTANTS,
    *limiting.MUTANTS,
    *messaging.MUTANTS,
    *paying.MUTANTS,
    *reconciling.MUTANTS,
    *searching.MUTANTS,
    *tenancy.MUTANTS,
    *upgrading.MUTANTS,
)
