"""Templates are hostile input: they reach nothing but the knowledge of their section, within limits."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_contracts.knowledge.formatters.format_string import compile_format_string
from kb_contracts.knowledge.formatters.handlebars import compile_handlebars
from kb_contracts.knowledge.formatters.jinja_template import compile_jinja
from kb_contracts.knowledge.formatters.render_budget import (
    MAX_RENDER_CHARACTERS,
    MAX_TEMPLATE_CHARACTERS,
    UnusableTemplate,
)
from kb_contracts.knowledge.formatters.section_formatters import FormatterTemplate, compile_formatters
from kb_contracts.knowledge.retrieval import RetrievalResult
from kb_contracts.knowledge.routing import RoutedSection, format_section, format_sections
from tests.counted_calls import count_calls
from tests.unit.knowledge import states

SECTION: Final = RoutedSection(
    metadata={"team": "aero", "active": True, "born in": 1990},
    global_metadata={"organization": "NASA"},
    pieces=[states.PROCEDURE, states.FACT],
    relations=[states.USES],
)
LARGE: Final = RoutedSection(
    pieces=[states.FACT.model_copy(update={"piece_id": f"p{n}", "content": f"{n} " * 25}) for n in range(100)]
)
COMPILERS: Final = (compile_format_string, compile_handlebars, compile_jinja)


def render(compiler: Callable[[str], Any], template: str, section: RoutedSection = SECTION) -> str:
    text = compiler(template)(section)
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{metadata} {{x}}", "active: true\nborn in: 1990\nteam: aero {x}"),
        ("{global_metadata}|{missing}|", "organization: NASA||"),
        ("{relations}", "USES → Technique:dynamic-smagorinsky (15% better spectral agreement on JN-042)"),
        ("", ""),
    ],
)
def test_format_strings_contain_the_texts_of_the_section(template: str, text: str) -> None:
    assert render(compile_format_string, template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{metadata.team}} {{{ metadata.team }}} {{&metadata.active}}", "aero aero true"),
        ("{{metadata.[born in]}}{{missing.x}}", "1990"),
        ("{{#if metadata.team}}a{{else}}b{{/if}}{{#if missing}}a{{else if metadata}}c{{/if}}", "ac"),
        ("{{#unless missing}}none{{/unless}}", "none"),
        (
            "{{#each pieces}}{{@index}}:{{piece_id}}{{#unless @last}},{{/unless}}{{/each}}",
            "0:les-rans-init,1:smagorinsky",
        ),
        ("{{#each metadata}}{{@key}}={{this}};{{/each}}", "active=true;born in=1990;team=aero;"),
        (
            "{{#each pieces}}{{#each tags}}{{../score}}{{.}},{{/each}}{{/each}}",
            "1.0les,1.0initialization,1.0rans,0.5les,0.5smagorinsky,",
        ),
        ("{{#each missing}}x{{else}}nothing{{/each}}", "nothing"),
        (
            "{{#with metadata}}{{team}} {{@root.pieces.0.piece_id}} {{../pieces.length}}{{/with}}",
            "aero les-rans-init 2",
        ),
        ("a {{!-- }} --}}b{{! c }}", "a b"),
        ("a \n {{~metadata.team~}} \n b", "aaerob"),
        ("{{#each pieces}}\n- {{piece_id}}\n{{/each}}\nend", "- les-rans-init\n- smagorinsky\nend"),
        ("{{#if metadata}} x {{/if}}\n", " x \n"),
    ],
)
def test_handlebars_templates_are_filled_as_handlebars_does_it(template: str, text: str) -> None:
    assert render(compile_handlebars, template) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ metadata.team }} {{ metadata['born in'] }} {{ missing.x.y }}.", "aero 1990 ."),
        ("{% if pieces|length > 1 and not missing %}many{% elif pieces %}one{% else %}none{% endif %}", "many"),
        ("{% for p in pieces %}{{ loop.index }}:{{ p.piece_id }}{% if not loop.last %}, {% endif %}{% endfor %}",
         "1:les-rans-init, 2:smagorinsky"),
        ("{% for k, v in metadata.items() %}{{ k }}={{ v }};{% endfor %}", "active=true;born in=1990;team=aero;"),
        ("{% for p in pieces if p.score == 0.5 %}{{ p.piece_id }}{% else %}none{% endfor %}", "smagorinsky"),
        ("{% for p in pieces if p.score > 7 %}{{ p.piece_id }}{% else %}none{% endfor %}", "none"),
        ("{{ pieces|map(attribute='piece_id')|sort(reverse=true)|join(', ')|upper }}", "SMAGORINSKY, LES-RANS-INIT"),
        ("{{ pieces|selectattr('knowledge_type', 'eq', 'fact')|map(attribute='score')|first }}", "0.5"),
        ("{% set name = metadata.team ~ '!' %}{{ name|replace('a', 'A') }}{{ x|default('-') }}", "Aero!-"),
        ("{{ 'yes' if 'les' in pieces[0].tags else 'no' }} {{ metadata.team in ['aero', 'x'] }}", "yes true"),
        ("{%- for p in pieces %}\n{{ p.tags|tojson }}\n{%- endfor %}",
         '\n["les", "initialization", "rans"]\n["les", "smagorinsky"]'),
        ("{{ metadata.keys()|join(';') }} {{ missing is defined }}", "active;born in;team false"),
        ("{{ cycler.__init__.__globals__ }}{{ self }}{{ ''.__class__ }}{{ pieces.append }}", ""),
        ("{# no comment #}{{ text }}", format_section(SECTION)),
    ],
)  # fmt: skip
def test_jinja_templates_are_filled_as_jinja_does_it(template: str, text: str) -> None:
    assert render(compile_jinja, template) == text


@pytest.mark.parametrize(
    "template",
    [
        "{0.__class__}", "{text.__class__.__mro__}", "{pieces[0]}", "{:>1000000000}", "{text:>1000000000}", "{text!r}",
        "{text:{text}}", "{}", "{0}", "{", "}", "{text", "{ text }",
    ],
)  # fmt: skip
def test_a_format_string_may_only_contain_names(template: str) -> None:
    with pytest.raises(UnusableTemplate):
        compile_format_string(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{> partial}}", "{{#> layout}}{{/layout}}", "{{* decorator}}", "{{lookup this 'x'}}", "{{#log x}}{{/log}}",
        "{{#if a}}", "{{/if}}", "{{else}}", "{{#if a}}{{/each}}", "{{", "{{{a}}", "{{!-- ", "{{}}",
        "{{#each}}{{/each}}",
        "{{a=b}}", "{{(a)}}", "{{#if a}}" * 30 + "{{/if}}" * 30, "{{#if a}}{{else if b}}" + "{{else if b}}" * 1_000,
        "{{constructor.constructor('return process')()}}",
    ],
)  # fmt: skip
def test_a_handlebars_template_outside_of_the_subset_is_refused(template: str) -> None:
    with pytest.raises(UnusableTemplate):
        compile_handlebars(template)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 10 ** 9 }}", "{{ 10 ** 10 ** 10 }}", "{{ '%1000000000d' % 1 }}", "{{ '%9999999d'|format(1) }}",
        "{{ '{:>1000000000}'.format(1) }}", "{{ 'a'|center(1000000000) }}", "{{ 'a'.center(1000000000) }}",
        "{% for a in range(1000000000) %}{% endfor %}", "{{ lipsum(n=1000000) }}", "{{ cycler() }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ self.__init__() }}", "{{ pieces|attr('__class__')  }}",
        "{{ metadata.pop('team') }}", "{{ metadata.items(1) }}", "{{ metadata.clear() }}", "{{ pieces.append(1) }}",
        "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% macro m() %}{{ m() }}{% endmacro %}",
        "{% for a in pieces recursive %}{{ loop(a) }}{% endfor %}", "{% set a = [text, text] %}",
        "{% set a = {'b': text} %}", "{% set a = (text, text) %}", "{% set a = [[1]] %}",
        "{% set a.b = 1 %}", "{% set a, b = 1, 2 %}", "{% filter upper %}x{% endfilter %}", "{{ f(*pieces) }}",
        "{% set x = namespace() %}", "{% block b %}{% endblock %}", "{{", "{{ }}", "{% if %}", "{{ a b }}",
        "{{ " + "(" * 5_000 + "}}", "{{ " + "9" * 15_000 + " }}", "{{ " + "not " * 4_000 + "a }}",
        "{{ a" + ".a" * 5_000 + "}}", "{{ a" + " ~ a" * 4_000 + " if b }" ,
        "{% if a %}" * 100 + "{% endif %}" * 100, "{{ pieces[1:] }}", "{{ pieces|map('upper') |join(*pieces) }}",
    ],
)  # fmt: skip
def test_a_jinja_template_outside_of_the_subset_is_refused(template: str) -> None:
    with pytest.raises(UnusableTemplate):
        compile_jinja(template)


MAX_CALLS: Final = 3_000_000
_NESTED_LOOPS: Final = "{% for a in pieces %}" * 6 + "{% endfor %}" * 6
_NESTED_EACH: Final = "{{#each @root.pieces}}" * 6 + "{{/each}}" * 6


@pytest.mark.parametrize(
    ("compiler", "template"),
    [
        (compile_jinja, _NESTED_LOOPS),
        (compile_jinja, _NESTED_LOOPS.replace("in pieces", "in pieces if false", 1).replace("if false", "if a", 1)),
        (compile_jinja, "{% set a = text %}" + "{% set a = a ~ a %}" * 900),
        (compile_jinja, "{% set a = text %}" + "{% set a = a|replace('', a) %}" * 500),
        (compile_jinja, "{% for a in pieces %}{{ pieces|join(text) }}{% endfor %}"),
        (compile_jinja, "{% for a in pieces %}{{ pieces|tojson }}{{ text|upper }}{{ pieces }}{% endfor %}" * 5),
        (compile_jinja, _NESTED_LOOPS.replace("%}{% endfor", "%}{{ pieces|sort(attribute='content') }}{% endfor")),
        (compile_handlebars, _NESTED_EACH),
        (compile_handlebars, "{{#each pieces}}{{#each ../pieces}}{{../../text}}{{/each}}{{/each}}"),
        (compile_handlebars, "{{pieces}}" * 2_000),
        (compile_format_string, "{text}" * 3_000),
    ],
)  # fmt: skip
def test_a_rendering_ends_at_its_limits(compiler: Callable[[str], Any], template: str) -> None:
    formatter = compiler(template)

    def fail() -> None:
        with pytest.raises(UnusableTemplate, match=r"takes more than|makes more than"):
            formatter(LARGE)

    # A rendering without limits would make 10 billion.
    assert count_calls(fail) < MAX_CALLS


_MARKS: Final = (
    "{{", "{%", "{#", "{", "}}", "{{#if a}}", "{{!", "{{!--", "{{ a }}", "{% raw %}", "{{~", "[", "-", "{{!----}}",
)  # fmt: skip


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("mark", _MARKS)
def test_a_template_of_one_mark_many_times_takes_calls_in_proportion_to_its_length(
    compiler: Callable[[str], Any], mark: str
) -> None:
    def calls_for(characters: int) -> int:
        def parse() -> None:
            with suppress(UnusableTemplate):
                compiler(mark * (characters // len(mark)))

        return count_calls(parse)

    assert calls_for(MAX_TEMPLATE_CHARACTERS) <= 6 * calls_for(MAX_TEMPLATE_CHARACTERS // 4) + 2_000


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_template_that_is_too_long_is_refused(compiler: Callable[[str], Any]) -> None:
    with pytest.raises(UnusableTemplate, match="characters"):
        compiler("x" * (MAX_TEMPLATE_CHARACTERS + 1))


_PARTS: Final = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", "{", "}", "pieces", "text", "metadata", ".", "[0]", "|", "join", "upper", " ",
     "#each ", "/each", "#if ", "/if", "else", "if ", "endif", "for a in ", "endfor", "set a = ", "~", "this", "../",
     "@index", "'x'", "\n"]
)  # fmt: skip


@given(st.lists(_PARTS, max_size=12).map("".join))
def test_any_template_is_refused_or_rendered_within_its_limits(template: str) -> None:
    for compiler in COMPILERS:
        with suppress(UnusableTemplate):
            assert len(compiler(template)(SECTION)) <= MAX_RENDER_CHARACTERS


def test_a_template_writes_the_section_of_its_info_type() -> None:
    result = RetrievalResult(metadata=states.METADATA, pieces=[states.PROCEDURE, states.FACT])
    formatters = compile_formatters(
        {
            "user_profile": FormatterTemplate(kind="jinja2", template="{{ metadata.team }}"),
            "instructions": FormatterTemplate(kind="handlebars", template="{{pieces.length}}"),
            "context": FormatterTemplate(kind="str.format", template="{missing}"),
        }
    )
    assert format_sections(result, formatters=formatters) == {"user_profile": "aero", "instructions": "1"}
