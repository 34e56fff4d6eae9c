# SPDX-License-Identifier: Apache-2.0
"""The package's logger. Its methods also take log_limit=N: a message (format and place) is logged at most N times."""
import logging
import sys


class _Logger(logging.LoggerAdapter):
    def __init__(self, logger):
        super().__init__(logger, {})
        self._counts = {}

    def log(self, level, msg, *args, log_limit=None, **kwargs):
        if log_limit is not None:
            frame = sys._getframe(2)
            key = (frame.f_code.co_filename, frame.f_lineno, msg)
            self._counts[key] = self._counts.get(key, 0) + 1
            if self._counts[key] > log_limit:
                return
        kwargs.setdefault("stacklevel", 3)
        super().log(level, msg, *args, **kwargs)


samba_logger = _Logger(logging.getLogger("sambaflow"))
