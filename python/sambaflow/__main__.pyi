# SPDX-License-Identifier: Apache-2.0
# made by tools/stubs.py
from typing import NoReturn

def main() -> NoReturn: ...
