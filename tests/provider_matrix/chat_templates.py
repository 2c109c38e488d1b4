"""Rules of published chat templates: what each accepts of a conversation, in a few lines of Jinja."""

from typing import Final

_ALTERNATE: Final = (
    "{% for m in turns %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{{ m['role'] }}: {{ m['content'] | trim }}\n{% endfor %}"
)
_FIRST_IS_SYSTEM: Final = (
    "{% if messages[0]['role'] == 'system' %}{% set turns = messages[1:] %}{{ messages[0]['content'] }}\n"
    "{% else %}{% set turns = messages %}{% endif %}"
)
_ALL_ROLES: Final = (
    "{% for m in messages %}{% if m['role'] not in ['system', 'user', 'assistant', 'tool'] %}"
    "{{ raise_exception('Unknown role') }}{% endif %}{{ m['role'] }}: "
)

TEMPLATES: Final[dict[str, str]] = {
    "ChatML (Qwen 2.5, Hermes)": _ALL_ROLES
    + "{% if m['content'] %}{{ m['content'] }}{% endif %}{% for c in m['tool_calls'] or [] %}<tool_call>"
    '{"name": "{{ c["function"]["name"] }}", "arguments": {{ c["function"]["arguments"] | from_json | tojson }}}'
    "</tool_call>{% endfor %}\n{% endfor %}",
    "Qwen 3": _ALL_ROLES
    + "{% if m['role'] == 'assistant' %}{% if m['reasoning_content'] is string %}<think>{{ m['reasoning_content'] }}"
    "</think>{% endif %}{% if '</think>' in m['content'] %}{{ m['content'].split('</think>')[-1] }}{% endif %}{% endif %}"
    "{{ m['content'] }}\n{% endfor %}",
    "Llama 2": _FIRST_IS_SYSTEM + _ALTERNATE,
    "Llama 3": _ALL_ROLES + "{{ m['content'] | trim }}\n{% endfor %}",
    "Llama 3.1": _ALL_ROLES + "{% if m['tool_calls'] %}{% if m['tool_calls'] | length != 1 %}"
    "{{ raise_exception('This model only supports single tool-calls at once!') }}{% endif %}"
    "{{ m['tool_calls'][0]['function']['arguments'] }}{% else %}{{ m['content'] | trim }}{% endif %}\n{% endfor %}",
    "Mistral 7B 0.1": "{% set turns = messages %}" + _ALTERNATE,
    "Mistral Nemo": _FIRST_IS_SYSTEM + "{% set ns = namespace(at=0) %}{% for m in turns %}"
    "{% if m['role'] == 'user' or (m['role'] == 'assistant' and not m['tool_calls']) %}"
    "{% if (m['role'] == 'user') != (ns.at % 2 == 0) %}"
    "{{ raise_exception('After the optional system message, conversation roles must alternate') }}{% endif %}"
    "{% set ns.at = ns.at + 1 %}{{ m['content'] }}\n{% elif m['role'] == 'tool' %}"
    "{% if m['tool_call_id'] | length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
    "{% else %}{% for c in m['tool_calls'] %}{% if c['id'] | length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}{% endfor %}"
    "{% endif %}{% endfor %}",
    "Mistral Small 3.1": "{% for m in messages %}{% if m['role'] == 'assistant' and not m['tool_calls'] and not m['content'] %}"
    "{{ raise_exception('Assistant message must have either content or tool_calls') }}{% endif %}"
    "{% if loop.index0 and m['role'] == 'system' %}{{ raise_exception('Unexpected role system') }}{% endif %}"
    "{% if loop.previtem and loop.previtem['role'] == m['role'] == 'user' %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ m['content'] }}\n{% endfor %}",
    "Gemma 2": "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% set turns = messages %}" + _ALTERNATE,
    "Gemma 3": _FIRST_IS_SYSTEM + _ALTERNATE,
    "Phi 3": "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}",
    "Granite 3": _ALL_ROLES + "{{ m['content'] or '' }}\n{% endfor %}",
    "SmolLM 2": "{% for m in messages %}{{ m['role'] + ': ' + (m['content'] or '') + '\n' }}{% endfor %}",
    "Zephyr": "{% for m in messages %}{% if m['role'] in ['user', 'system', 'assistant'] %}"
    "{{ m['role'] + ': ' + m['content'] + '\n' }}{% endif %}{% endfor %}",
    "Command R": "{% if messages[0]['role'] == 'system' %}{% set turns = messages[1:] %}{% else %}"
    "{% set turns = messages %}{% endif %}" + _ALTERNATE,
    "DeepSeek R1": "{% for m in messages %}{% if m['role'] == 'assistant' and m['content'] is not none %}"
    "{{ m['content'].split('</think>')[-1] }}{% elif m['role'] == 'tool' %}{{ m['content'] }}{% endif %}{% endfor %}",
}
"""Templates by the models that have them. `raise_exception` and `from_json` are those of the servers."""
