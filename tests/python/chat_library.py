# SPDX-License-Identifier: Apache-2.0
"""Chat templates of sambaflow/text.h by ctypes, for test_chat.py: libsambaflow.so of the build folder SAMBAFLOW_BUILD."""

import ctypes
import json
import os

from text_library import BUILD, Pointer, Refused, Size

UNSUPPORTED = 9


class Span(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_int64), ("end", ctypes.c_int64)]


class Text(ctypes.Structure):
    _fields_ = [("text", Pointer), ("length", Size), ("spans", ctypes.POINTER(Span)), ("count", ctypes.c_int64)]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", Size),
        ("add_generation_prompt", ctypes.c_bool),
        ("spans", ctypes.c_bool),
        ("tools", ctypes.c_char_p),
        ("variables", ctypes.c_char_p),
        ("now", ctypes.c_int64),
    ]


class Unsupported(Refused):
    """What the subset has not."""


_library = ctypes.CDLL(os.path.join(BUILD, "libsambaflow.so"))
_library.samba_context_new.argtypes = [Pointer, Pointer]
_library.samba_error_message.argtypes = [Pointer]
_library.samba_error_message.restype = ctypes.c_char_p
_library.samba_chat_template_open.argtypes = [Pointer, ctypes.c_char_p, ctypes.c_char_p, Pointer]
_library.samba_chat_template_free.argtypes = [Pointer]
_library.samba_chat_render.argtypes = [Pointer, Pointer, ctypes.c_char_p, Size, ctypes.POINTER(Options), ctypes.POINTER(Text)]
_library.samba_chat_text_free.argtypes = [Pointer, Pointer]
_context = Pointer()
assert _library.samba_context_new(None, ctypes.byref(_context)) == 0


def _check(status):
    if status:
        message = _library.samba_error_message(_context).decode()
        raise (Unsupported if status == UNSUPPORTED else Refused)(message)


class Template:
    def __init__(self, text=None, folder=None):
        self.c = Pointer()
        given = [None if one is None else str(one).encode() for one in (folder, text)]
        _check(_library.samba_chat_template_open(_context, *given, ctypes.byref(self.c)))

    def __del__(self):
        _library.samba_chat_template_free(self.c)

    def render(self, messages, add_generation_prompt=False, tools=None, spans=False, now=0, **variables):
        """The text; with `spans`, and the assistant's words."""

        def dumped(value):
            return None if value is None else json.dumps(value, ensure_ascii=False).encode()

        given, text = dumped(messages), Text()
        options = Options(ctypes.sizeof(Options), add_generation_prompt, spans, dumped(tools), dumped(variables or None), now)
        _check(_library.samba_chat_render(_context, self.c, given, len(given), ctypes.byref(options), ctypes.byref(text)))
        made = ctypes.string_at(text.text, text.length)
        words = [made[text.spans[i].begin : text.spans[i].end].decode() for i in range(text.count)]
        _library.samba_chat_text_free(_context, ctypes.byref(text))
        return (made.decode(), words) if spans else made.decode()
