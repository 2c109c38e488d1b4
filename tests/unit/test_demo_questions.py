from importlib.metadata import distribution, requires

import pytest

from kb_local.demo.demo_questions import DEMO_QUESTIONS, DemoQuestion
from kb_local.demo.documents import installed_libraries
from kb_local.demo.scenario import NETWORK, PERMISSIVE
from kb_local.model_server.nearest_sentences import nearest_sentences
from kb_local.model_server.quotable_sentences import Passage, read_sentences

EACH = pytest.mark.parametrize("question", DEMO_QUESTIONS, ids=lambda question: question.library)


@EACH
def test_the_answer_is_among_the_documents_of_the_knowledge_base_that_is_asked(question: DemoQuestion) -> None:
    found = {each.document_id: each for each in installed_libraries()}
    library = found[question.library]
    assert question.answer in library.text
    assert not set(library.tag_ids).isdisjoint(PERMISSIVE if question.asks == "permissive" else NETWORK)


@EACH
async def test_the_bundled_model_answers_from_the_description(question: DemoQuestion) -> None:
    found = {each.document_id: each for each in installed_libraries()}
    passages = [Passage("[1]", found[name].text, name) for name in (question.library, "click", "httpx")]
    best, *_ = await nearest_sentences(question.text, read_sentences(passages), None)
    assert question.answer in best.text


@EACH
def test_the_library_is_installed_with_the_local_stack(question: DemoQuestion) -> None:
    packages = [each for each in ("kb-shared", "kb-client", "kb-contracts") if distribution(each)]
    needed = [requirement for package in packages for requirement in requires(package) or []]
    assert any(requirement.startswith(question.library) for requirement in needed)
