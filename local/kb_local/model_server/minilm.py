"""all-MiniLM-L6-v2 with int8 weights: text to word pieces to unit vectors, each call on the thread that makes it."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import onnx
import onnxruntime
from tokenizers import Tokenizer

from kb_local.model_server.integer_products import with_integer_products
from kb_local.model_server.pinned_files import MINILM_TOKENIZER, MINILM_WEIGHTS
from kb_local.model_server.text_model import Matrix, WordPieces


class MiniLM:
    """The loaded model. Blocking, and safe to use on several threads at once."""

    name: ClassVar = "all-MiniLM-L6-v2"
    dimensions: ClassVar = 384
    max_word_pieces: ClassVar = 256

    def __init__(self, tokenizer: Tokenizer, session: onnxruntime.InferenceSession) -> None:
        self._tokenizer = tokenizer
        self._session = session

    @classmethod
    def load(cls) -> Self:
        """Check the files and load them, in about a second.

        Raises:
            UnusableModelFile: a file is missing or not the pinned one.
        """
        tokenizer = Tokenizer.from_file(str(MINILM_TOKENIZER.locate()))
        # The file asks for truncation at 128 and padding to 128: both silently wrong for this model.
        tokenizer.enable_truncation(max_length=cls.max_word_pieces)
        tokenizer.no_padding()
        model = with_integer_products(onnx.load(MINILM_WEIGHTS.locate())).SerializeToString()
        session = onnxruntime.InferenceSession(model, _one_thread(), providers=["CPUExecutionProvider"])
        return cls(tokenizer, session)

    def tokenize(self, texts: Sequence[str]) -> list[WordPieces]:
        """Return each text's word pieces, the two special ones included, at most `max_word_pieces`."""
        # One by one, because encode_batch spreads over all cores.
        return [self._tokenizer.encode(text).ids for text in texts]

    def embed(self, batch: Sequence[WordPieces]) -> Matrix:
        """Return one unit vector per text, shape (`len(batch)`, `dimensions`)."""
        # One by one: nothing is padding, the numbers of a text stay in the processor's cache, and its vector never
        # depends on its neighbours, whose numbers would share its scale.
        return np.stack([self._embed_one(pieces) for pieces in batch])

    def _embed_one(self, pieces: WordPieces) -> Matrix:
        ids = np.array([pieces], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run(["last_hidden_state"], inputs)
        mean = hidden[0].mean(axis=0)
        vector: Matrix = mean / np.linalg.norm(mean)
        return vector


def _one_thread() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    # More threads on a busy machine make one call six times slower; several calls at once use the cores as well.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # The arena keeps the memory of the longest text for ever.
    options.enable_cpu_mem_arena = False
    return options
