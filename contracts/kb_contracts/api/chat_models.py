"""Chat models that runs, prompts and agents can name."""

from typing import Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import example

DEMO_MODEL: Final = "demo-extractive"
"""Name of the model of the local stack that is no language model: it quotes sentences."""


class ChatModelView(BaseModel):
    name: str
    provider: str = Field(description="Provider of the model; `local`: this deployment.")
    max_input_tokens: int | None = Field(description="Greatest number of tokens of a prompt; null if it is not known.")
    max_output_tokens: int | None = Field(
        description="Greatest number of tokens of an answer; null if it is not known."
    )
    takes_schema: bool = Field(description="Whether the provider itself makes answers follow a JSON schema.")
    usd_per_million_prompt_tokens: float | None = Field(
        description="Price of a million tokens of the prompt in US dollars; null if it is not known."
    )
    usd_per_million_completion_tokens: float | None = Field(
        description="Price of a million tokens of the answer in US dollars; null if it is not known."
    )
    key_present: bool = Field(description="Whether there is a key for the provider, so that the model can be used.")


class ChatModelList(BaseModel):
    model_config = example(
        {
            "chat_models": [
                {
                    "name": "gpt-4o-mini",
                    "provider": "openai",
                    "max_input_tokens": 128_000,
                    "max_output_tokens": 16_384,
                    "takes_schema": True,
                    "usd_per_million_prompt_tokens": 0.15,
                    "usd_per_million_completion_tokens": 0.6,
                    "key_present": True,
                }
            ],
            "total_count": 1,
            "default_model": "gpt-4o-mini",
            "default_model_problem": None,
        }
    )

    chat_models: list[ChatModelView]
    total_count: int = Field(description="Number of items on all pages.")
    default_model: str = Field(
        default="", description="Model of a run, prompt or agent that names none (`KB_CHAT_MODEL`)."
    )
    default_model_problem: str | None = Field(
        default=None, description="Why the organization can't use it, with what to do; null if nothing is known."
    )
