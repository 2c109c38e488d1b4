"""Templates of `str.format` with names alone: `{pieces}`, without attributes, indexes, conversions and formats."""

from string import Formatter

from kb_contracts.knowledge.formatters.render_budget import RenderBudget, UnusableTemplate, check_length
from kb_contracts.knowledge.formatters.section_variables import section_texts
from kb_contracts.knowledge.routing import RoutedSection, SectionFormatter


def compile_format_string(template: str) -> SectionFormatter:
    """Return the formatter of a template such as `About Alice: {text}`; `{{` and `}}` are written as braces.

    Raises:
        UnusableTemplate: it is no format string, or does more than to name texts of the section.
    """
    check_length(template)
    try:
        parsed = list(Formatter().parse(template))
    except ValueError:
        raise UnusableTemplate("has a brace that opens or closes nothing; write {{ or }} for a brace") from None
    parts = [(text, _name(field, spec, conversion)) for text, field, spec, conversion in parsed]

    def render(section: RoutedSection) -> str:
        budget = RenderBudget()
        texts = section_texts(section)
        return "".join(budget.produce(text + (texts.get(name, "") if name is not None else "")) for text, name in parts)

    return render


def _name(field: str | None, spec: str | None, conversion: str | None) -> str | None:
    if field is None:
        return None
    if spec or conversion or not field.isidentifier():
        raise UnusableTemplate("may contain names in braces only, such as {text}: no attributes, numbers and formats")
    return field
