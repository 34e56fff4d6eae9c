# SPDX-License-Identifier: Apache-2.0
"""The package's logger. Its methods also take log_limit=N: a message (its place and its format) is logged at most N times.

>>> for step in range(1000):
...     samba_logger.info("step %d", step, log_limit=3)
"""

import collections
import logging


class _Limit(logging.Filter):
    """Counts messages that have a limit; a record says where it comes from."""

    def __init__(self):
        super().__init__()
        self._counts = collections.Counter()

    def filter(self, record):
        limit = getattr(record, "log_limit", None)
        if limit is None:
            return True
        key = (record.pathname, record.lineno, record.msg)
        self._counts[key] += 1
        return self._counts[key] <= limit


class _Logger(logging.LoggerAdapter):
    """A logging.Logger whose calls take one more keyword."""

    def __init__(self, logger):
        super().__init__(logger, {})
        logger.addFilter(_Limit())

    def process(self, msg, kwargs):
        limit = kwargs.pop("log_limit", None)
        if limit is not None:
            kwargs["extra"] = {**(kwargs.get("extra") or {}), "log_limit": limit}
        return msg, kwargs

    def __getattr__(self, name):  # addHandler and the like
        if name == "logger":
            raise AttributeError(name)
        return getattr(self.logger, name)


samba_logger: _Logger = _Logger(logging.getLogger("sambaflow"))
