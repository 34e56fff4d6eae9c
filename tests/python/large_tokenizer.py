# SPDX-License-Identifier: Apache-2.0
"""Writes a tokenizer.json of GPT-2's kind and size, trained on mixed text. Usage: large_tokenizer.py FILE"""

import sys

from text_corpus import pieces
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers


def main():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
    letters, ends = pre_tokenizers.ByteLevel.alphabet(), ["<|endoftext|>"]
    trainer = trainers.BpeTrainer(vocab_size=50257, initial_alphabet=letters, special_tokens=ends, show_progress=False)
    made.train_from_iterator((piece.decode("utf-8", "replace") for piece in list(pieces(16 << 20, 0))[4:]), trainer)
    made.save(sys.argv[1])


if __name__ == "__main__":
    main()
