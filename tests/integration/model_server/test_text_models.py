import base64
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest

from kb_local.model_server.minilm import MiniLM
from kb_local.model_server.text_model import TextModel
from kb_local.model_server.use_multilingual import UseMultilingual
from kb_shared.embedding.models import LOCAL_MODELS

MODELS = (MiniLM, UseMultilingual)

RESTORE = "How do I restore a database backup?"
RECOVER = "Steps to recover data from a saved snapshot of the database."
CAKE = "Bake the chocolate cake for forty minutes."

Matrix = npt.NDArray[np.float32]


@pytest.fixture(params=MODELS, ids=lambda model: model.name)
def model(request: pytest.FixtureRequest) -> type[TextModel]:
    chosen: type[TextModel] = request.param
    return chosen


async def embed(http: httpx.AsyncClient, model: type[TextModel], texts: str | list[str], **more: Any) -> dict[str, Any]:
    answer = await http.post("/v1/embeddings", json={"model": model.name, "input": texts, **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def vectors(http: httpx.AsyncClient, model: type[TextModel], texts: str | list[str]) -> Matrix:
    data = (await embed(http, model, texts))["data"]
    assert [entry["index"] for entry in data] == list(range(len(data)))
    return np.array([entry["embedding"] for entry in data], dtype=np.float32)


async def test_related_texts_are_nearer_than_unrelated_ones(http: httpx.AsyncClient, model: type[TextModel]) -> None:
    question, answer, cake = await vectors(http, model, [RESTORE, RECOVER, CAKE])

    # MiniLM: .632, .036 and .049 when this was written; USE: .559, .075 and .028.
    assert question @ answer > 0.5
    assert question @ cake < 0.15
    assert answer @ cake < 0.15


async def test_a_vector_has_the_models_dimensions_and_length_one(
    http: httpx.AsyncClient, model: type[TextModel]
) -> None:
    (vector,) = await vectors(http, model, CAKE)

    assert vector.shape == (model.dimensions,)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


async def test_a_vector_does_not_depend_on_the_batch_it_was_made_in(
    http: httpx.AsyncClient, model: type[TextModel]
) -> None:
    texts = [CAKE * copies for copies in (9, 1, 7, 2, 30, 3, 5, 4, 12, 1, 6, 8)]

    together = await vectors(http, model, texts)
    alone = np.concatenate([await vectors(http, model, text) for text in texts])

    assert np.abs(together - alone).max() < 1e-5


async def test_answers_stand_in_the_order_asked_for_whatever_the_lengths(
    http: httpx.AsyncClient, model: type[TextModel]
) -> None:
    texts = [f"number {number} " * (1 + number * 7 % 20) for number in range(20)]

    forward = await vectors(http, model, texts)
    backward = await vectors(http, model, texts[::-1])

    assert np.abs(forward - backward[::-1]).max() < 1e-5
    assert np.abs(forward - backward).max() > 1e-2


async def test_text_is_read_to_the_end_up_to_the_models_limit(http: httpx.AsyncClient, model: type[TextModel]) -> None:
    short, long = RECOVER * 10, RECOVER * 60

    vector, with_another_end = await vectors(http, model, [short, short + CAKE])
    long_vector, cut = await vectors(http, model, [long, long + CAKE])
    usage = (await embed(http, model, long))["usage"]

    assert np.abs(vector - with_another_end).max() > 1e-3
    assert np.abs(long_vector - cut).max() < 1e-5
    assert usage == {"prompt_tokens": model.max_word_pieces, "total_tokens": model.max_word_pieces}


async def test_usage_counts_the_word_pieces_read_without_padding(
    http: httpx.AsyncClient, model: type[TextModel]
) -> None:
    together = await embed(http, model, [CAKE, CAKE * 10])
    alone = [(await embed(http, model, text))["usage"]["prompt_tokens"] for text in (CAKE, CAKE * 10)]

    assert together["usage"] == {"prompt_tokens": sum(alone), "total_tokens": sum(alone)}
    assert together["model"] == model.name
    assert together["object"] == "list"


async def test_base64_holds_the_same_floats(http: httpx.AsyncClient, model: type[TextModel]) -> None:
    (floats,) = await vectors(http, model, CAKE)
    encoded = await embed(http, model, CAKE, encoding_format="base64", dimensions=model.dimensions)

    held = base64.b64decode(encoded["data"][0]["embedding"])
    assert np.array_equal(np.frombuffer(held, dtype="<f4"), floats)


async def test_other_dimensions_are_refused(http: httpx.AsyncClient, model: type[TextModel]) -> None:
    refused = await http.post("/v1/embeddings", json={"model": model.name, "input": CAKE, "dimensions": 256})

    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "dimensions"


async def test_any_unicode_text_can_be_embedded(http: httpx.AsyncClient, model: type[TextModel]) -> None:
    texts = ["蛋糕食谱", "👩‍👩‍👧‍👦", "\u0000\u2028", "   ", "<|endoftext|>", "ก" * 500, "z̷̡͝a̵l̸g̶o̴", "\U0010ffff\ufffe"]

    assert np.isfinite(await vectors(http, model, texts)).all()


async def test_a_question_is_nearer_to_its_english_paragraph_than_to_others_in_each_language_served(
    http: httpx.AsyncClient,
) -> None:
    paragraphs = [
        "To restore the database, stop the server and copy the files of the last backup to the data folder.",
        "Bake the chocolate cake for forty minutes and let it cool down before you cut it.",
        "Employees may take thirty days of vacation a year; ask your manager two weeks before.",
    ]
    questions = {
        "ar": "كيف أستعيد قاعدة البيانات من نسخة احتياطية؟",
        "de": "Wie stelle ich die Datenbank aus einer Sicherung wieder her?",
        "es": "¿Cómo restauro la base de datos desde una copia de seguridad?",
        "fr": "Comment restaurer la base de données à partir d'une sauvegarde ?",
        "it": "Come si ripristina il database da un backup?",
        "ja": "バックアップからデータベースを復元するにはどうすればよいですか?",
        "ko": "백업에서 데이터베이스를 복원하려면 어떻게 해야 합니까?",
        "nl": "Hoe herstel ik de database vanaf een back-up?",
        "pl": "Jak przywrócić bazę danych z kopii zapasowej?",
        "pt": "Como restaurar o banco de dados a partir de um backup?",
        "ru": "Как восстановить базу данных из резервной копии?",
        "th": "ฉันจะกู้คืนฐานข้อมูลจากข้อมูลสำรองได้อย่างไร",
        "tr": "Veritabanını yedekten nasıl geri yüklerim?",  # noqa: RUF001  # Turkish has it
        "zh": "如何从备份中恢复数据库?",
    }
    answers = await vectors(http, UseMultilingual, paragraphs)
    asked = await vectors(http, UseMultilingual, list(questions.values()))

    nearness = asked @ answers.T
    lead = dict(zip(questions, nearness[:, 0] - nearness[:, 1:].max(axis=1), strict=True))
    assert min(lead.values()) > 0.1, lead


def test_the_catalogue_of_models_says_what_each_is() -> None:
    assert {name: (known.dimensions, known.max_input_tokens) for name, known in LOCAL_MODELS.items()} == {
        model.name: (model.dimensions, model.max_word_pieces) for model in MODELS
    }
