"""Tells whether a name can be that of an embedding model."""

from importlib.util import find_spec
from typing import Final

from kb_shared.embedding.models import BundledModel, ModelCatalogue
from kb_shared.errors import UnknownModel

_SERVED: Final = "http://127.0.0.1"


def is_unknown_model(name: str, *, chunker_type: str) -> bool:
    """Return whether no deployment has a model of this name.

    False also where that can't be said: the models of the late chunker have the names that a deployment gives them,
    and the list of the others is in a package that only the services need.
    """
    if chunker_type == "late" or not _is_absent(name, {}):
        return False
    if find_spec("litellm") is None:
        return False
    from kb_shared.embedding.provider import bundled_models  # seconds, so only for names that are not local

    return _is_absent(name, bundled_models())


def _is_absent(name: str, bundled: dict[str, BundledModel]) -> bool:
    try:
        ModelCatalogue(bundled, local_models_api_base=_SERVED, environment={}).provider_of(name)
    except UnknownModel:
        return True
    return False
