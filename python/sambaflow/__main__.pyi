# SPDX-License-Identifier: Apache-2.0
from typing import NoReturn

def main() -> NoReturn: ...
