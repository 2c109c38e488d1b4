import pytest
from pymongo.errors import ConfigurationError

from kb_shared.mongo.database import mongo_errors


def test_another_mistake_in_the_configuration_stays_what_it_is() -> None:
    with pytest.raises(ConfigurationError), mongo_errors():
        raise ConfigurationError("unknown option")
