"""Templates of a request as formatters, whose errors name their field."""

from collections.abc import Mapping

from kb_contracts.knowledge.formatters.render_budget import UnusableTemplate
from kb_contracts.knowledge.formatters.section_formatters import FormatterTemplate, compile_formatter
from kb_contracts.knowledge.routing import RoutedSection, SectionFormatter
from kb_shared.errors import RequestError
from kb_shared.http.problems import invalid_field


def compile_templates(templates: Mapping[str, FormatterTemplate]) -> dict[str, SectionFormatter]:
    """Return the formatter of each info type.

    Raises:
        RequestError: 422, a template contains what is not allowed; also later, if it reaches its limits.
    """
    return {info_type: _compile(info_type, template) for info_type, template in templates.items()}


def _compile(info_type: str, template: FormatterTemplate) -> SectionFormatter:
    try:
        formatter = compile_formatter(template)
    except UnusableTemplate as error:
        raise _invalid(info_type, error) from None

    def write(section: RoutedSection) -> str:
        try:
            return formatter(section)
        except UnusableTemplate as error:
            raise _invalid(info_type, error) from None

    return write


def _invalid(info_type: str, error: UnusableTemplate) -> RequestError:
    return invalid_field(f"formatters.{info_type}.template", f"the template {error}")
