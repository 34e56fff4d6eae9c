# SPDX-License-Identifier: Apache-2.0
"""Methods of SambaSession that the documents have as methods of the class."""

import functools

from sambaflow.samba import _state


class of_session:
    """Decorates a method: called on the class it is that of samba.session, the session that programs use."""

    def __init__(self, function):
        self.function = function
        functools.update_wrapper(self, function)

    def __get__(self, session, owner):
        return self.function.__get__(_state.session if session is None else session)
