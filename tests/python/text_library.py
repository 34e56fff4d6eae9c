# SPDX-License-Identifier: Apache-2.0
"""sambaflow/text.h by ctypes, for test_text.py and bench/text.py: libsambaflow.so of the build folder SAMBAFLOW_BUILD."""

import array
import ctypes
import os
import pathlib

BUILD = os.environ.get("SAMBAFLOW_BUILD", str(pathlib.Path(__file__).resolve().parents[2] / "build"))
Pointer, Size, Count = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64


class TokenList(ctypes.Structure):
    _fields_ = [("ids", ctypes.POINTER(ctypes.c_int32)), ("count", Count)]


class TokenText(ctypes.Structure):
    _fields_ = [("text", Pointer), ("length", Size)]


SIGNATURES = {
    "samba_context_new": [Pointer, Pointer],
    "samba_error_message": [Pointer],
    "samba_tokenizer_open_memory": [Pointer, ctypes.c_char_p, Size, Pointer],
    "samba_tokenizer_free": [Pointer],
    "samba_tokenizer_size": [Pointer],
    "samba_tokenizer_token": [Pointer, ctypes.c_int32],
    "samba_tokenizer_encode": [Pointer, Pointer, ctypes.c_char_p, Size, ctypes.c_bool, Pointer],
    "samba_tokenizer_decode": [Pointer, Pointer, Pointer, Count, ctypes.c_bool, Pointer],
    "samba_token_list_free": [Pointer, Pointer],
    "samba_token_text_free": [Pointer, Pointer],
    "samba_token_encoder_new": [Pointer, Pointer, Pointer],
    "samba_token_encoder_run": [Pointer, ctypes.c_char_p, Size, ctypes.c_bool, Pointer, Pointer],
    "samba_token_encoder_free": [Pointer],
    "samba_token_stream_new": [Pointer, Pointer, ctypes.c_bool, Pointer],
    "samba_token_stream_next": [Pointer, ctypes.c_int32, Pointer, Pointer],
    "samba_token_stream_end": [Pointer, Pointer, Pointer],
    "samba_token_stream_free": [Pointer],
}


def _load():
    library = ctypes.CDLL(os.path.join(BUILD, "libsambaflow.so"))
    for name, arguments in SIGNATURES.items():
        getattr(library, name).argtypes = arguments
    library.samba_error_message.restype = ctypes.c_char_p
    library.samba_tokenizer_size.restype = Count
    library.samba_tokenizer_token.restype = ctypes.c_char_p
    return library


class Refused(Exception):
    """The library's message."""


class Tokenizer:
    def __init__(self, data):
        self.library, self.context, self.c, self.encoder = _load(), Pointer(), Pointer(), Pointer()
        assert self.library.samba_context_new(None, ctypes.byref(self.context)) == 0
        data = data if isinstance(data, bytes) else data.encode()
        self._check(self.library.samba_tokenizer_open_memory(self.context, data, len(data), ctypes.byref(self.c)))

    def _check(self, status):
        if status:
            raise Refused(self.library.samba_error_message(self.context).decode())

    def __del__(self):
        self.library.samba_token_encoder_free(self.encoder)
        self.library.samba_tokenizer_free(self.c)

    def __len__(self):
        return self.library.samba_tokenizer_size(self.c)

    def token(self, i):
        found = self.library.samba_tokenizer_token(self.c, i)
        return None if found is None else found.decode()

    def encode(self, text, special):
        found = TokenList()
        self._check(self.library.samba_tokenizer_encode(self.context, self.c, text, len(text), special, ctypes.byref(found)))
        ids = found.ids[: found.count] if found.count else []
        self.library.samba_token_list_free(self.context, ctypes.byref(found))
        return ids

    def encode_again(self, text):
        """By an encoder, which is kept: (pointer to ids, count)."""
        if not self.encoder:
            self._check(self.library.samba_token_encoder_new(self.context, self.c, ctypes.byref(self.encoder)))
        ids, count = ctypes.POINTER(ctypes.c_int32)(), Count()
        places = ctypes.byref(ids), ctypes.byref(count)
        self._check(self.library.samba_token_encoder_run(self.encoder, text, len(text), False, *places))
        return ids, count.value

    def decode(self, ids, skip):
        given, text = (ctypes.c_int32 * len(ids)).from_buffer(array.array("i", ids)), TokenText()
        self._check(self.library.samba_tokenizer_decode(self.context, self.c, given, len(ids), skip, ctypes.byref(text)))
        decoded = ctypes.string_at(text.text, text.length).decode()
        self.library.samba_token_text_free(self.context, ctypes.byref(text))
        return decoded

    def stream(self, ids, skip):
        """The texts that a stream gives, the last at its end; each is UTF-8 by itself."""
        made, text, length, parts = Pointer(), Pointer(), Size(), []
        places = ctypes.byref(text), ctypes.byref(length)
        self._check(self.library.samba_token_stream_new(self.context, self.c, skip, ctypes.byref(made)))
        for i in ids:
            self._check(self.library.samba_token_stream_next(made, i, *places))
            parts.append(ctypes.string_at(text.value, length.value).decode())
        self._check(self.library.samba_token_stream_end(made, *places))
        parts.append(ctypes.string_at(text.value, length.value).decode())
        self.library.samba_token_stream_free(made)
        return parts
