"""Makes renderers of Markdown without HTML, images and links: only what they make themselves becomes markup."""

from collections.abc import Callable
from typing import Any, Final

from markdown_it import MarkdownIt

RenderRule = Callable[..., str]
_OWN_MARKUP: Final = {
    # Headings of a text are none of the page.
    "heading_open": '<p class="heading">',
    "heading_close": "</p>\n",
    # A wide table scrolls by itself.
    "table_open": '<div class="scroll" tabindex="0" role="region" aria-label="Table of the text"><table>\n',
    "table_close": "</table></div>\n",
    # The policy of pages has no inline styles, by which columns would be aligned.
    "th_open": "<th>",
    "td_open": "<td>",
}


def create_renderer(rules: dict[str, RenderRule], **options: Any) -> MarkdownIt:
    """Return a renderer.

    Args:
        rules: functions that render a token, by its type. They have to escape what they return.
        options: of the parser, besides that it takes no HTML.
    """
    markdown = MarkdownIt("commonmark", {**options, "html": False})
    markdown.disable(["image", "link", "autolink", "html_block", "html_inline", "reference"])
    markdown.enable(["table", "strikethrough"])
    for name, render in rules.items():
        markdown.add_render_rule(name, render)
    for name, markup in _OWN_MARKUP.items():
        markdown.add_render_rule(name, lambda *_, markup=markup: markup)
    return markdown
