from collections.abc import AsyncIterator

import pytest

from kb_local.python_server import ModelServerProcess
from kb_shared.chat.chat import Chat, create_chat
from kb_shared.mongo.database import Database
from kb_shared.settings import ChatSettings
from tests.scripted_model import ScriptedModel, scripted_model


@pytest.fixture
async def scripted(model_server: ModelServerProcess) -> AsyncIterator[ScriptedModel]:
    async with scripted_model(model_server) as model:
        yield model


@pytest.fixture
async def chat(database: Database, model_server: ModelServerProcess) -> AsyncIterator[Chat]:
    settings = ChatSettings(local_models_api_base=model_server.api_base, chat_patience_s=0.2, chat_timeout_s=600)
    chat = create_chat(database, settings)
    yield chat
    await chat.close()
