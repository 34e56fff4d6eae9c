# SPDX-License-Identifier: Apache-2.0
import logging

class _Logger(logging.LoggerAdapter[logging.Logger]): ...  # whose methods take further keywords: log_limit

samba_logger: _Logger
