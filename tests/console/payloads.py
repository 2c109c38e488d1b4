"""Texts that would do harm if a page took them for markup, a script, an address, a style or a template.

Each tries to set `window.hacked`, or to request an address with `hacked` in it. `tests/unit/console`
tries them without a browser.
"""

from typing import Final

PAYLOADS: Final = (
    "<script>window.hacked=1</script>",
    "<SCRIPT SRC=/console/hacked.js></SCRIPT>",
    "<script src=//hacked.example/x.js></script>",
    "<img src=x onerror=window.hacked=1>",
    "<img src=//hacked.example/i.png>",
    "<image href=//hacked.example/i.png>",
    "\"><svg onload='window.hacked=1'>",
    "<svg><script>window.hacked=1</script></svg>",
    "<svg><a xlink:href=javascript:window.hacked=1><text>x</text></a></svg>",
    "'-window.hacked=1-'",
    '";window.hacked=1;//',
    "</textarea><script>window.hacked=1</script>",
    "</title><script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "--><script>window.hacked=1</script><!--",
    "<![CDATA[<script>window.hacked=1</script>]]>",
    '<b hx-get="/console/hacked" hx-trigger="load" hx-nonce="x">',
    '<b data-hx-post="/console/hacked" data-hx-trigger="load">',
    "<div hx-on:load='window.hacked=1'>",
    "<hx-partial hx-target=body hx-swap=innerHTML>window.hacked</hx-partial>",
    "<template hx-get=/console/hacked></template>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<iframe src=javascript:parent.hacked=1></iframe>",
    "<object data=/console/hacked></object>",
    "<embed src=/console/hacked>",
    "<base href=//hacked.example/>",
    "<link rel=stylesheet href=//hacked.example/x.css>",
    "<meta http-equiv=refresh content='0;url=/console/hacked'>",
    "<form action=//hacked.example><button>window.hacked</button></form>",
    "<button form=ask formaction=//hacked.example>window.hacked</button>",
    "<input autofocus onfocus=window.hacked=1>",
    "<details open ontoggle=window.hacked=1>",
    "<video><source onerror=window.hacked=1></video>",
    "<body onload=window.hacked=1>",
    "<style>@import '//hacked.example/x.css';</style>",
    "<p style='background:url(//hacked.example/i.png)'>",
    "<math><mtext><script>window.hacked=1</script></mtext></math>",
    "<a href=javascript:window.hacked=1>x</a>",
    "[x](javascript:window.hacked=1)",
    "[x](data:text/html,<script>opener.hacked=1</script>)",
    "![x](//hacked.example/i.png)",
    "[x]: javascript:window.hacked=1",
    "<javascript:window.hacked=1>",
    "<https://hacked.example/>",
    "`<script>window.hacked=1</script>`",
    "{{ 7 * 7 }} window.hacked",
    "{% include 'base.html' %} window.hacked",
    "${window.hacked=1}",
    "\N{RIGHT-TO-LEFT OVERRIDE}1=dekcah.wodniw\N{ZERO WIDTH SPACE}",
    "&lt;script&gt;window.hacked=1&lt;/script&gt; &#60;img src=x onerror=window.hacked=1&#62;",
)
assert len(PAYLOADS) == 50


def pack(limit: int) -> list[str]:
    """Return all payloads in as few texts of at most `limit` characters as they fit in one after the other."""
    packed = [""]
    for payload in PAYLOADS:
        if len(packed[-1]) + len(payload) >= limit:
            packed.append("")
        packed[-1] += f" {payload}" if packed[-1] else payload
    return packed
