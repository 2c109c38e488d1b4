"""Requests that are longer than the context of the model, as servers refuse them."""

import json
from typing import Any

import pytest

from kb_shared.chat.completion import Completion, CompletionRequest, Message
from kb_shared.chat.models import ChatCatalogue
from kb_shared.chat.provider import ChatProvider, OnText, bundled_chat_models
from kb_shared.chat.request_errors import map_provider_error
from kb_shared.errors import BatchRefused, ContextExceeded, KbError, ProviderRefused
from kb_shared.providers.access import Access
from kb_shared.providers.context_limit import find_context_limit
from kb_shared.providers.provider_errors import Failure, Meaning
from tests.hostile_provider import Asked, Behaviour, HostileProvider, hostile_provider, says
from tests.provider_matrix.answering import answers

QUESTION: Message = {"role": "user", "content": "Which ferry takes lorries?"}
BOTH = {
    "OpenAI": "This model's maximum context length is 16385 tokens. However, you requested 17300 tokens (14800 in the "
    "messages, 2500 in the completion). Please reduce the length of the messages or completion.",
    "vLLM": "'max_tokens' or 'max_completion_tokens' is too large: 2500. This model's maximum context length is 16385 "
    "tokens and your request has 14800 input tokens (2500 > 16385 - 14800).",
    "vLLM, later": "You passed 14800 input tokens and requested 2500 output tokens. However, the model's context "
    "length is only 16385 tokens, resulting in a maximum input length of 13885 tokens.",
    "SGLang": "Requested token count exceeds the model's maximum context length of 16385 tokens. You requested a total "
    "of 17300 tokens: 14800 tokens from the input messages and 2500 tokens for the completion.",
    "OpenRouter": "This endpoint's maximum context length is 16385 tokens. However, you requested about 17300 tokens "
    "(14800 of text input, 2500 in the output). Please reduce the length of either one.",
    "Anthropic": "input length and `max_tokens` exceed context limit: 14800 + 2500 > 16385, decrease input length or "
    "`max_tokens` and try again",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 16385. Given: 14800 `inputs` tokens "
    "and 2500 `max_new_tokens`",
}
PROMPT = {
    "OpenAI": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9100 tokens "
    "(9100 in the messages). Please reduce the length of the messages.",
    "vLLM": "This model's maximum context length is 8192 tokens. However, your request has 9100 input tokens.",
    "SGLang": "The input (9100 tokens) is longer than the model's context length (8192 tokens).",
    "llama.cpp": "request (9100 tokens) exceeds the available context size (8192 tokens), try increasing it",
    "llama-cpp-python": "Requested tokens (9100) exceed context window of 8192",
    "Anthropic": "prompt is too long: 9100 tokens > 8192 maximum",
    "Gemini": "The input token count (9100) exceeds the maximum number of tokens allowed (8192).",
    "Vertex": "Unable to submit request because the input token count is 9,100 but model only supports up to 8,192.",
    "Mistral": "Prompt contains 9100 tokens and 0 draft tokens, too large for model with 8192 maximum context length",
    "xAI": "This model's maximum prompt length is 8192 but the request contains 9100 tokens.",
    "TGI": "Input validation error: `inputs` must have less than 8192 tokens. Given: 9100",
    "Cohere": "too many tokens: total number of tokens in the prompt cannot exceed 8192 - received 9100.",
    "LM Studio": "Trying to keep the first 9100 tokens when context the overflows. However, the model is loaded with "
    "context length of only 8192 tokens, which is not enough.",
    "OpenAI, later": "Input tokens exceed the configured limit of 8192 tokens. Your messages resulted in 9100 tokens.",
    "Cerebras": "Please reduce the length of the messages or completion. Current length is 9100 while limit is 8192",
    "Fireworks": "The prompt is too long: 9100, model maximum context length: 8192",
}
UNCOUNTED = {
    "OpenAI": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "llama.cpp": "the request exceeds the available context size. try increasing the context size",
    "Bedrock": "Input is too long for requested model.",
    "Qwen": "Range of input length should be [1, 30720]",
    "vLLM": "max_tokens must be at least 1, got -186.",
    "Bedrock, later": "Too many input tokens",
    "Groq": "Please reduce the length of the messages or completion.",
}
PART = (
    "This model's maximum context length is 16385 tokens. However, you requested 2500 output tokens and your prompt "
    "contains at least 13886 input tokens, for a total of at least 16386 tokens."
)


def error(words: str, **fields: Any) -> str:
    return json.dumps({"error": {"message": words, **fields}})


def find(words: str, *, status: int = 400) -> Any:
    return find_context_limit(Failure(status=status), error(words))


@pytest.mark.parametrize("server", BOTH)
def test_prompt_and_context_are_counted_where_the_answer_makes_it_too_long(server: str) -> None:
    limit = find(BOTH[server])
    assert (limit.prompt_tokens, limit.context_tokens, limit.room) == (14_800, 16_385, 1_585)
    assert limit.leaves_room(2_500)
    assert "14,800 tokens, and 'm' takes 16,385 in one request, which leaves 1,585" in limit.describe("m")


@pytest.mark.parametrize("server", PROMPT)
def test_prompt_and_context_are_counted_where_the_prompt_is_too_long(server: str) -> None:
    limit = find(PROMPT[server])
    assert (limit.prompt_tokens, limit.context_tokens, limit.room) == (9_100, 8_192, 0)
    assert not limit.leaves_room(4_000)
    assert not limit.leaves_room(None)
    assert limit.describe("m") == "its prompt has 9,100 tokens, and 'm' takes 8,192 in one request"


@pytest.mark.parametrize("server", UNCOUNTED)
def test_a_server_that_counts_nothing_is_understood(server: str) -> None:
    limit = find(UNCOUNTED[server])
    assert limit is not None
    assert not limit.leaves_room(4_000)
    assert "more tokens than 'm' takes" in limit.describe("m")


def test_a_code_says_it_without_words_and_whatever_the_status_is() -> None:
    for status, code in ((400, "context_length_exceeded"), (500, "exceed_context_size_error")):
        failure = Failure(status=status, code=code)
        assert failure.meaning is Meaning.BATCH
        assert find_context_limit(failure, "") is not None


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_words_say_nothing_where_the_status_says_something_else(status: int) -> None:
    assert find(PROMPT["vLLM"], status=status) is None


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens is too large: 50. This model supports at most 20 completion tokens",
        "Unknown parameter: 'max_completion_tokens'",
        "Invalid value for 'messages': the content is not allowed",
        "library/m does not support tools",
    ],
)
def test_other_refusals_are_not_about_the_context(words: str) -> None:
    assert find(words) is None


def test_an_answer_of_a_few_tokens_is_not_asked_for() -> None:
    limit = find(BOTH["OpenAI"].replace("14800", "16300"))
    assert (limit.room, limit.leaves_room(2_500), limit.leaves_room(100)) == (85, False, True)


async def ask(
    hostile: HostileProvider,
    *,
    limit: int | None = 2_500,
    provider: ChatProvider | None = None,
    on_text: OnText | None = None,
) -> Completion:
    used = provider or ChatProvider(private_addresses=True)
    catalogue = ChatCatalogue(bundled_chat_models(), local_models_api_base=None, environment={})
    model = catalogue.get("gpt-4o-mini", Access("key", hostile.api_base))
    request = CompletionRequest([QUESTION], max_completion_tokens=limit)
    try:
        return await used.complete(request, model=model, timeout_s=60, on_text=on_text)
    finally:
        if provider is None:
            await used.close()


def refuses_above(room: int, words: str) -> Behaviour:
    """Refuse to write more than `room` tokens; without a limit, write what fits."""

    async def behaviour(writer: Any, asked: Asked) -> None:
        is_refused = asked.body.get("max_completion_tokens", 0) > room
        await (answers(error(words), status=400) if is_refused else says("The second one."))(writer, asked)

    return behaviour


def limits(hostile: HostileProvider) -> list[int | None]:
    return [each.body.get("max_completion_tokens") for each in hostile.asked]


async def test_a_shorter_answer_is_asked_for_where_only_the_answer_is_too_long_and_again_in_the_next_call() -> None:
    provider = ChatProvider(private_addresses=True)
    async with hostile_provider(refuses_above(1_585, BOTH["vLLM"])) as hostile:
        said = await ask(hostile, provider=provider)
        await ask(hostile, provider=provider)
        await provider.close()
    assert (said.text, said.left_out) == ("The second one.", frozenset())
    assert limits(hostile) == [2_500, 1_585] * 2, "another prompt leaves other room"


async def test_no_limit_is_sent_where_the_server_has_not_counted_the_whole_prompt() -> None:
    async with hostile_provider(refuses_above(1_585, PART)) as hostile:
        assert (await ask(hostile)).text == "The second one."
    assert limits(hostile) == [2_500, None]


@pytest.mark.parametrize(("words", "tried"), [(BOTH["OpenAI"], 2), (PART, 2), (PROMPT["Gemini"], 1)])
async def test_a_request_that_stays_too_long_is_sent_at_most_twice(words: str, tried: int) -> None:
    async with hostile_provider(answers(error(words), status=400)) as hostile:
        with pytest.raises(ContextExceeded) as raised:
            await ask(hostile)
    assert len(hostile.asked) == tried
    assert (raised.value.error_type, isinstance(raised.value, BatchRefused)) == ("text_refused", True)


async def test_a_server_that_counts_more_each_time_is_asked_twice() -> None:
    prompts = iter(range(10_000, 16_000, 1_000))

    async def behaviour(writer: Any, asked: Asked) -> None:
        words = BOTH["vLLM"].replace("14800", str(next(prompts)))
        await answers(error(words), status=400)(writer, asked)

    async with hostile_provider(behaviour) as hostile:
        with pytest.raises(ContextExceeded, match="its prompt has 11,000 tokens"):
            await ask(hostile, limit=9_000)
    assert limits(hostile) == [9_000, 6_385]


async def test_nothing_is_asked_again_once_text_was_heard() -> None:
    heard: list[str] = []

    async def on_text(text: str) -> None:
        heard.append(text)

    begun = {"choices": [{"index": 0, "delta": {"content": "The second ferry takes them. " * 9}}]}
    broken = json.loads(error(BOTH["OpenAI"], code=400))
    stream = "".join(f"data: {json.dumps(each)}\n\n" for each in (begun, broken))
    async with hostile_provider(answers(stream)) as hostile:
        with pytest.raises(KbError):
            await ask(hostile, on_text=on_text)
    assert heard
    assert len(hostile.asked) == 1


async def test_the_caller_reads_what_is_too_long_and_what_to_do_and_no_words_of_the_server() -> None:
    quoting = PROMPT["llama.cpp"] + " for <s>[INST] Which ferry takes lorries?"
    async with hostile_provider(answers(error(quoting), status=400)) as hostile:
        with pytest.raises(ProviderRefused) as raised:
            await ask(hostile)
    problem = map_provider_error(raised.value)
    assert (problem.status, problem.slug, problem.extra) == (422, "messages-refused", {"reason": "context-exceeded"})
    assert "its prompt has 9,100 tokens, and 'gpt-4o-mini' takes 8,192 in one request" in problem.detail
    for remedy in ("fewer passages", "max_output_tokens", "larger context"):
        assert remedy in problem.detail
    assert "ferry" not in problem.detail
