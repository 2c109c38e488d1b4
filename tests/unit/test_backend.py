import pytest

from tests.backend import ATLAS_LOCAL_IMAGE, KAFKA_IMAGE, Backend, UnusableBackend


def test_without_a_variable_the_servers_of_kb_local_are_started() -> None:
    backend = Backend.from_environment({})
    assert (backend.kind, backend.mongo_uri, backend.kafka, backend.has_local_broker) == ("local", None, None, True)


def test_deployments_that_run_already_are_named_without_their_addresses() -> None:
    backend = Backend.from_environment({"KB_TEST_MONGO_URI": "mongodb://user:secret@m/", "KB_TEST_KAFKA": "k:9092"})
    assert (backend.mongo_uri, backend.kafka) == ("mongodb://user:secret@m/", "k:9092")
    assert not backend.has_local_broker
    assert backend.described() == ["mongodb: KB_TEST_MONGO_URI", "kafka: KB_TEST_KAFKA"]


def test_docker_is_chosen_by_its_variable_and_the_header_names_the_pinned_images() -> None:
    backend = Backend.from_environment({"KB_TEST_BACKEND": "docker"})
    assert not backend.has_local_broker
    assert ATLAS_LOCAL_IMAGE in backend.described()[0]
    assert KAFKA_IMAGE in backend.described()[1]
    for image in (ATLAS_LOCAL_IMAGE, KAFKA_IMAGE):
        assert image.rpartition(":")[2][0].isdigit()


@pytest.mark.parametrize("value", ["podman", "Docker", ""])
def test_another_value_is_an_error_that_names_those_there_are(value: str) -> None:
    with pytest.raises(UnusableBackend, match="local, docker"):
        Backend.from_environment({"KB_TEST_BACKEND": value})


@pytest.mark.parametrize("variable", ["KB_TEST_MONGO_URI", "KB_TEST_KAFKA"])
def test_containers_and_a_deployment_that_runs_already_are_not_chosen_together(variable: str) -> None:
    with pytest.raises(UnusableBackend, match=variable):
        Backend.from_environment({"KB_TEST_BACKEND": "docker", variable: "somewhere"})
