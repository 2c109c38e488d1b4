"""`python -m benchmarks.extractive_answers`: how often the model without a language model answers, and refuses.

The documents come in as events and are indexed; each question is a run over HTTP. An answer is right if its first
sentence contains an expected text, and a question that no document answers has to be refused.
"""

import argparse
import asyncio
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.indexed_corpus import CorpusDocument, CorpusKnowledgeBase, folder_for, indexed
from kb_local.model_server.demo_chat import LABEL, NOTHING_FOUND

_HERE: Final = Path(__file__).parent
_FIRST_CITATION: Final = re.compile(r" \[\d+\](?: |\Z)")


@dataclass(frozen=True, slots=True)
class QuestionWithAnswers:
    text: str
    answers: Sequence[str] = ()
    """Texts of which the first sentence must contain one; none: the documents do not answer."""

    def is_right(self, first_sentence: str) -> bool:
        if not self.answers:
            return first_sentence == NOTHING_FOUND
        return any(answer.lower() in first_sentence.lower() for answer in self.answers)


@dataclass(frozen=True, slots=True)
class AnswerScore:
    answerable: int
    answered: int
    unanswerable: int
    refused: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extractive_answers", description=__doc__)
    parser.add_argument("--only", help="one part: development, validation or held_out")
    parser.add_argument("--keep", type=Path, help="folder that keeps what was indexed, for the next run")
    parser.add_argument("--show", action="store_true", help="print the questions with a wrong answer")
    options = parser.parse_args()
    with folder_for(options.keep) as folder:
        scores = asyncio.run(_run(folder, only=options.only, shows=options.show))
    print(json.dumps({part: asdict(score) for part, score in scores.items()}, indent=2))


async def _run(folder: Path, *, only: str | None, shows: bool) -> dict[str, AnswerScore]:
    parts = tomllib.loads((_HERE / "questions.toml").read_text())
    documents = [
        CorpusDocument(path.stem, path.name, path.read_text()) for path in sorted((_HERE / "documents").iterdir())
    ]
    async with indexed(folder, documents, ["hybrid"]) as kb:
        return {
            part: await _score(kb, [QuestionWithAnswers(**row) for row in rows], shows=shows)
            for part, rows in parts.items()
            if only in {None, part}
        }


async def _score(kb: CorpusKnowledgeBase, questions: Sequence[QuestionWithAnswers], *, shows: bool) -> AnswerScore:
    right: list[QuestionWithAnswers] = []
    for question in questions:
        first_sentence = await _first_sentence(kb, question.text)
        if question.is_right(first_sentence):
            right.append(question)
        elif shows:
            print(f"{question.text}\n    {first_sentence}")
    answered = sum(bool(question.answers) for question in right)
    answerable = sum(bool(question.answers) for question in questions)
    return AnswerScore(answerable, answered, len(questions) - answerable, len(right) - answered)


async def _first_sentence(kb: CorpusKnowledgeBase, question: str) -> str:
    body = {"messages": [{"role": "user", "content": question}], "kb_ids": [kb.kb_id], "model": "demo-extractive"}
    run = (await kb.http.post("/runs", json=body)).raise_for_status().json()
    text = str(run["answer"]).removeprefix(LABEL).strip()
    return _FIRST_CITATION.split(text, maxsplit=1)[0]


if __name__ == "__main__":
    main()
