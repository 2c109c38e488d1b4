"""What only the search node does, such as being late on purpose: it needs a mongod of ours."""

import pytest

from kb_local.mongod import Mongod
from tests.conformance.atlas_search.deployment import ATLAS_URI


@pytest.fixture(scope="session", autouse=True)
def only_with_our_own_mongod(request: pytest.FixtureRequest) -> None:
    # Not a parameter of this fixture: with ATLAS_URI no server is to be started.
    if ATLAS_URI is not None or not isinstance(request.getfixturevalue("mongod"), Mongod):
        pytest.skip("these tests start search nodes in front of a mongod of their own")
