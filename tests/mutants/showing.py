"""Faults of the console: what a document may do to a page, and what a form chooses by itself."""

from typing import Final

from tests.mutants.mutant import Mutant, in_file

_CONSOLE: Final = "services/console/kb_console"
_UNIT: Final = "tests/unit/console"
_MARKDOWN: Final = f"{_CONSOLE}/safe_markdown.py"
_PASSAGES: Final = f"{_UNIT}/test_passage_markup.py"

MUTANTS: Final = (
    Mutant(
        "passages-have-links",
        _MARKDOWN,
        old='["image", "link", "autolink",',
        new='["image",',
        caught_by=in_file(_PASSAGES, "test_html_links_and_images_of_a_document_stay_text"),
    ),
    Mutant(
        "columns-have-inline-styles",
        _MARKDOWN,
        old='    "td_open": "<td>",\n',
        new="",
        caught_by=in_file(_PASSAGES, "test_columns_of_a_table_have_no_inline_style_which_the_policy_of_pages_forbids"),
    ),
    Mutant(
        "own-tag-may-be-one-that-documents-have",
        f"{_CONSOLE}/knowledge_bases/tag_choices.py",
        old="    if await find_missing_tags(api, [own]):\n",
        new="    if own:\n",
        caught_by=in_file(
            f"{_UNIT}/test_author_pages.py",
            "test_a_knowledge_base_does_not_get_the_documents_of_a_tag_that_was_not_chosen",
        ),
    ),
    Mutant(
        "name-of-two-documents-chooses-one",
        f"{_CONSOLE}/documents/document_choices.py",
        old="    if len(found) > 1:\n",
        new="    if len(found) > 2:\n",
        caught_by=in_file(f"{_UNIT}/test_chat.py", "test_a_document_is_chosen_by_its_name_or_its_id"),
    ),
)
