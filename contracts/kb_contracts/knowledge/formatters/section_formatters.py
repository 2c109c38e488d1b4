"""The choice of a formatter for the sections of an info type."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field

from kb_contracts.api.model import StrictModel
from kb_contracts.knowledge.formatters.format_string import compile_format_string
from kb_contracts.knowledge.formatters.handlebars import compile_handlebars
from kb_contracts.knowledge.formatters.render_budget import MAX_TEMPLATE_CHARACTERS
from kb_contracts.knowledge.routing import SectionFormatter
from kb_contracts.text_rules import storable

FormatterKind: TypeAlias = Literal["jinja2", "handlebars", "str.format"]


class FormatterTemplate(StrictModel):
    """A template that writes the sections of an info type."""

    kind: FormatterKind = Field(description="Language of the template; of the first two a safe subset.")
    template: Annotated[str, Field(min_length=1, max_length=MAX_TEMPLATE_CHARACTERS), AfterValidator(storable)] = Field(
        description="Template with the variables `text` (the section as by default), `metadata`, `global_metadata`, "
        "`pieces` and `relations`."
    )


def compile_formatter(chosen: FormatterTemplate) -> SectionFormatter:
    """Return the formatter of a template.

    Raises:
        UnusableTemplate: it contains what is not allowed.
        ImportError: it is one of Jinja2, and the extra `jinja2` of this package is not installed.
    """
    match chosen.kind:
        case "str.format":
            return compile_format_string(chosen.template)
        case "handlebars":
            return compile_handlebars(chosen.template)
        case "jinja2":
            # Jinja2 is an extra: most programs use no templates of it.
            from kb_contracts.knowledge.formatters.jinja_template import compile_jinja

            return compile_jinja(chosen.template)


def compile_formatters(chosen: Mapping[str, FormatterTemplate]) -> dict[str, SectionFormatter]:
    """Return the formatter of each info type."""
    return {info_type: compile_formatter(template) for info_type, template in chosen.items()}
