from tests.chaos.mutants import CATCHERS
from tests.chaos.mutation import MUTANTS


def test_every_mutant_has_somebody_to_catch_it() -> None:
    assert CATCHERS.keys() == MUTANTS.keys()
