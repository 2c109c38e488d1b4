"""Document ids are legal, different for different paths, and the same wherever the folder is."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from kb_client.files.document_ids import id_prefix, make_document_id
from kb_client.files.found_file import normalize_name
from kb_contracts.identifiers import is_identifier

names = st.builds(
    lambda part, times: normalize_name(part * times), st.text(min_size=1, max_size=10), st.integers(1, 50)
)


@given(names, names)
def test_every_path_gives_a_legal_id_with_the_prefix_of_its_folder(source: str, path: str) -> None:
    document_id = make_document_id(source, relative_path=path)
    assert is_identifier(document_id)
    assert document_id.startswith(id_prefix(source))


@given(st.tuples(names, names), st.tuples(names, names))
def test_different_paths_have_different_ids(one: tuple[str, str], other: tuple[str, str]) -> None:
    ids = {make_document_id(source, relative_path=path) for source, path in (one, other)}
    assert len(ids) == len({one, other})


@given(st.text("abB.-_ é/", min_size=1), st.text("abB.-_ é/", min_size=1), names)
def test_no_id_begins_with_the_prefix_of_another_folder(source: str, other: str, path: str) -> None:
    one, another = normalize_name(source), normalize_name(other)
    if one != another:
        assert not make_document_id(one, relative_path=path).startswith(id_prefix(another))


def test_ids_can_be_read_and_never_change() -> None:
    # Other ids would leave the documents of earlier pushes behind.
    assert make_document_id("handbook", relative_path="guides/Install me.md") == (
        "handbook.guides-install-me-5ff2eaebd7ff816a"
    )
    assert (
        make_document_id("Mein Ordner.v2", relative_path="Größe.pdf")
        == "mein-ordner-v2-1a68036b.grosse-b4f1fcbfab83207f"
    )


def test_a_decomposed_name_is_the_composed_one() -> None:
    assert normalize_name(unicodedata.normalize("NFD", "Größe.pdf")) == "Größe.pdf"
