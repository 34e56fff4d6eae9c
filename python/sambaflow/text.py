# SPDX-License-Identifier: Apache-2.0
"""Tokenizers and chat templates: text to the ids that a language model was trained on, and back, as the files say that came with
the model (docs/text.md). The work is the library's (sambaflow/text.h); neither torch nor `tokenizers` is needed.

A tokenizer may be used by several threads; a stream belongs to one at a time.

>>> from sambaflow.text import DecodeStream, Tokenizer
>>> tokenizer = Tokenizer(data='{"model": {"type": "WordLevel", "vocab": {"a": 0, "<unk>": 1}, "unk_token": "<unk>"}}')
>>> tokenizer.encode("a"), tokenizer.decode([0, 1])
([0], 'a <unk>')
>>> isinstance(tokenizer.stream(), DecodeStream)
True
"""

import array
import json
import operator
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

from sambaflow import errors
from sambaflow._core import ffi, lib
from sambaflow.errors import raise_status
from sambaflow.runtime import Context, thread_context
from sambaflow.words import path_of

_Path = str | bytes | os.PathLike[str]
_Text = str | bytes | bytearray | memoryview

__all__ = ["Tokenizer", "DecodeStream", "ChatTemplate"]


def _bytes_of(text, what):
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    if not isinstance(text, str):
        raise errors.ArgumentTypeError(f"{what} is a str or bytes: given {text!r:.100} of {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise errors.ArgumentError(f"{what} is no Unicode text: {text!a:.100}") from None


def _word_of(text, what):
    """A C string."""
    word = _bytes_of(text, what)
    if b"\0" in word:
        raise errors.ArgumentError(f"{what} has a NUL in it: {text!r:.100}")
    return word


def _flag(value, what):
    if not isinstance(value, bool):
        raise errors.ArgumentTypeError(f"{what} is a bool: given {value!r:.100}")
    return value


def _id_of(number):
    try:
        number = operator.index(number)
    except TypeError:
        raise errors.ArgumentTypeError(f"an id is a whole number: given {number!r:.100} of {type(number).__name__}") from None
    if not -(1 << 31) <= number < 1 << 31:
        raise_status(lib.SAMBA_ERROR_ARGUMENT, f"an id is {number}, which is no number of 32 bits")
    return number


def _ids_of(ids):
    """Numbers of 32 bits in C's form. Lists, which are nearly all that comes, go at once; what is wrong is found one by one."""
    if type(ids) in (list, tuple):
        try:
            return array.array("i", ids)
        except (TypeError, OverflowError):
            pass
    return array.array("i", [_id_of(i) for i in ids])


def _json_of(value, what):
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.ArgumentTypeError(f"{what} cannot be written as JSON: {error}") from None


class Tokenizer:
    """`path`: a tokenizer.json, a SentencePiece model, or a folder that has one of them or vocab.json with merges.txt; or `data`,
    what such a file holds (samba_tokenizer_open). Texts are str, or bytes of which those that are no UTF-8 count as U+FFFD."""

    def __init__(self, path: _Path | None = None, *, data: _Text | None = None) -> None:
        if (path is None) == (data is None):
            raise errors.ArgumentTypeError("Tokenizer takes a path or data, one of them")
        context, made = Context(), ffi.new("samba_tokenizer **")
        self._path = None if path is None else path_of(path)
        if path is None:
            data = _bytes_of(data, "data")
            context.check(lib.samba_tokenizer_open_memory(context.c, ffi.from_buffer(data), len(data), made))
        else:
            context.check(lib.samba_tokenizer_open(context.c, self._path, made))
        self._c = context.owned(made[0], lib.samba_tokenizer_free)
        self._of_thread = threading.local()

    def __reduce_ex__(self, protocol):
        if self._path is None:
            raise errors.ArgumentTypeError("a tokenizer of data cannot be copied or pickled: open one of a path")
        return Tokenizer, (self._path,)

    def __len__(self) -> int:
        return lib.samba_tokenizer_size(self._c)

    def __repr__(self):
        return f"<sambaflow.text.Tokenizer of {len(self)} tokens>"

    @property
    def vocab_size(self) -> int:
        """How many tokens there are, added ones included."""
        return len(self)

    def _encoder(self):
        """(this thread's context, its encoder, which keeps the words that it has met)."""
        context = thread_context()
        encoder = getattr(self._of_thread, "encoder", None)
        if encoder is None:
            made, c = ffi.new("samba_token_encoder **"), self._c
            context.check(lib.samba_token_encoder_new(context.c, c, made))

            def end(pointer, tokenizer=c):  # which outlives its encoders
                lib.samba_token_encoder_free(pointer)

            encoder = self._of_thread.encoder = context.owned(made[0], end)
        return context, encoder

    def encode(self, text: _Text, special: bool = True) -> list[int]:
        """The ids of a text; `special`: with the tokens that the file puts around one, such as [CLS] and [SEP]."""
        data, special = _bytes_of(text, "text"), _flag(special, "special")
        context, encoder = self._encoder()
        ids, count = ffi.new("int32_t **"), ffi.new("int64_t *")
        context.check(lib.samba_token_encoder_run(encoder, ffi.from_buffer(data), len(data), special, ids, count))
        return ffi.unpack(ids[0], count[0]) if count[0] else []

    def encode_batch(self, texts: Iterable[_Text], special: bool = True) -> list[list[int]]:
        """The ids of each of `texts`, a list for each; `special` as of encode."""
        if isinstance(texts, (str, bytes)):
            raise errors.ArgumentTypeError("texts is a list of texts: given one text, which encode takes")
        return [self.encode(text, special) for text in texts]

    def decode(self, ids: Iterable[SupportsIndex], skip_special: bool = True) -> str:
        """The text of ids. Ids that no token has are left out, and with `skip_special` the special tokens."""
        numbers, skip_special = _ids_of(ids), _flag(skip_special, "skip_special")
        context, text = thread_context(), ffi.new("samba_token_text *")
        given = ffi.from_buffer("int32_t[]", numbers)
        context.check(lib.samba_tokenizer_decode(context.c, self._c, given, len(numbers), skip_special, text))
        try:
            return ffi.unpack(text.text, text.length).decode("utf-8") if text.length else ""
        finally:
            lib.samba_token_text_free(context.c, text)

    def decode_batch(self, batch: Iterable[Iterable[SupportsIndex]], skip_special: bool = True) -> list[str]:
        """The text of each list of ids in `batch`; `skip_special` as of decode."""
        return [self.decode(ids, skip_special) for ids in batch]

    def stream(self, skip_special: bool = True) -> "DecodeStream":
        """A stream, which decodes id by id and never gives half a character; `skip_special` as of decode."""
        return DecodeStream(self, skip_special)

    def token_to_id(self, token: str | bytes) -> int | None:
        """The id of a token, spelled as in the file; None: there is none."""
        i = lib.samba_tokenizer_id(self._c, _word_of(token, "token"))
        return None if i < 0 else i

    def id_to_token(self, id: SupportsIndex) -> str | None:
        """The token of an id; None: there is none."""
        token = lib.samba_tokenizer_token(self._c, _id_of(id))
        return None if token == ffi.NULL else ffi.string(token).decode("utf-8")

    def _special(self, purpose):
        i = lib.samba_tokenizer_special(self._c, purpose)
        return None if i < 0 else i

    @property
    def bos_id(self) -> int | None:
        """The id of the token that begins a text; None: no file says one. So of the others."""
        return self._special(lib.SAMBA_SPECIAL_BOS)

    @property
    def eos_id(self) -> int | None:
        """That ends a text."""
        return self._special(lib.SAMBA_SPECIAL_EOS)

    @property
    def pad_id(self) -> int | None:
        """That fills up a sequence."""
        return self._special(lib.SAMBA_SPECIAL_PAD)

    @property
    def unk_id(self) -> int | None:
        """That stands for unknown text."""
        return self._special(lib.SAMBA_SPECIAL_UNK)

    @property
    def sep_id(self) -> int | None:
        """That stands between two texts."""
        return self._special(lib.SAMBA_SPECIAL_SEP)

    @property
    def cls_id(self) -> int | None:
        """Whose output classifies a text."""
        return self._special(lib.SAMBA_SPECIAL_CLS)

    @property
    def mask_id(self) -> int | None:
        """That stands for what is to be guessed."""
        return self._special(lib.SAMBA_SPECIAL_MASK)


class DecodeStream:
    """Decoding id by id: the texts given, one after the other, are the text of all ids, and each has whole characters only. The
    ids are those of `tokenizer`; with `skip_special` the special tokens are left out.

    >>> import json
    >>> from sambaflow.text import Tokenizer
    >>> model = {"type": "BPE", "vocab": {"Ã": 0, "©": 1}, "merges": []}
    >>> stream = Tokenizer(data=json.dumps({"model": model, "decoder": {"type": "ByteLevel"}})).stream()
    >>> stream.next(0), stream.next(1), stream.end()
    ('', 'é', '')
    """

    def __init__(self, tokenizer: Tokenizer, skip_special: bool = True) -> None:
        if not isinstance(tokenizer, Tokenizer):
            raise errors.ArgumentTypeError(f"tokenizer is a sambaflow.text.Tokenizer: given {type(tokenizer).__name__}")
        self._context, made, c = Context(), ffi.new("samba_token_stream **"), tokenizer._c
        flag = _flag(skip_special, "skip_special")
        self._context.check(lib.samba_token_stream_new(self._context.c, c, flag, made))

        def end(pointer, tokenizer=c):
            lib.samba_token_stream_free(pointer)

        self._c = self._context.owned(made[0], end)
        self._text, self._length = ffi.new("const char **"), ffi.new("size_t *")

    def __reduce_ex__(self, protocol):
        raise errors.ArgumentTypeError("a stream cannot be copied or pickled: make a new one")

    def _given(self):
        return ffi.unpack(self._text[0], self._length[0]).decode("utf-8") if self._length[0] else ""

    def next(self, id: SupportsIndex) -> str:
        """One id more: the text that is told for good by it; "" where nothing is."""
        self._context.check(lib.samba_token_stream_next(self._c, _id_of(id), self._text, self._length))
        return self._given()

    def end(self) -> str:
        """The end: the text that waited for more. The stream then begins anew."""
        self._context.check(lib.samba_token_stream_end(self._c, self._text, self._length))
        return self._given()


class ChatTemplate:
    """A `folder`'s chat template, or `template`: its text, or the name of one of the folder's (samba_chat_template_open).

    >>> from sambaflow.text import ChatTemplate
    >>> template = ChatTemplate(template="{% for m in messages %}{{ m.role }}: {{ m.content }}. {% endfor %}")
    >>> template.render([{"role": "user", "content": "Hello"}])
    'user: Hello. '
    """

    def __init__(self, folder: _Path | None = None, template: str | bytes | None = None) -> None:
        if folder is None and template is None:
            raise errors.ArgumentTypeError("ChatTemplate takes a folder, a template, or both")
        self._context, made = Context(), ffi.new("samba_chat_template **")
        where = ffi.NULL if folder is None else path_of(folder, "folder")
        text = ffi.NULL if template is None else _word_of(template, "template")
        self._context.check(lib.samba_chat_template_open(self._context.c, where, text, made))
        self._c = self._context.owned(made[0], lib.samba_chat_template_free)

    def __reduce_ex__(self, protocol):
        raise errors.ArgumentTypeError("a chat template cannot be copied or pickled: open it anew")

    @property
    def marks(self) -> bool:
        """Whether the template marks the assistant's words by {% generation %} blocks, whose places render_spans gives."""
        return lib.samba_chat_template_marks(self._c)

    def _render(self, messages, spans, add_generation_prompt, tools, variables, now):
        options = ffi.new("samba_chat_options *", {"struct_size": ffi.sizeof("samba_chat_options"), "spans": spans})
        options.add_generation_prompt = _flag(add_generation_prompt, "add_generation_prompt")
        kept = []
        for name, value in (("tools", tools), ("variables", variables)):
            if value is not None:
                kept.append(ffi.new("char[]", _json_of(value, name)))
                setattr(options, name, kept[-1])
        options.now = 0 if now is None else operator.index(now)
        data, context, text = _json_of(messages, "messages"), thread_context(), ffi.new("samba_chat_text *")
        context.check(lib.samba_chat_render(context.c, self._c, data, len(data), options, text))
        try:
            raw = ffi.unpack(text.text, text.length) if text.length else b""
            return raw, [(text.spans[i].begin, text.spans[i].end) for i in range(text.span_count)]
        finally:
            lib.samba_chat_text_free(context.c, text)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        now: SupportsIndex | None = None,
    ) -> str:
        """Makes the text of a conversation.

        Args:
            messages: dicts such as {"role": "user", "content": "Hi"}.
            add_generation_prompt: whether the text ends with the words behind which an answer begins.
            tools: a list of schemas.
            variables: a dict of the template's further variables.
            now: seconds since 1970 for strftime_now; None: the clock's.

        Returns:
            The text. Special tokens are in it: encode it with special=False.
        """
        return self._render(messages, False, add_generation_prompt, tools, variables, now)[0].decode("utf-8")

    def render_spans(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        now: SupportsIndex | None = None,
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """The same as bytes, with the places of the assistant's words.

        Args:
            messages, add_generation_prompt, tools, variables, now: as of render.

        Returns:
            (the text as UTF-8, [(begin, end) in its bytes]).
        """
        return self._render(messages, True, add_generation_prompt, tools, variables, now)
