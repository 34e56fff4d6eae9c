# SPDX-License-Identifier: Apache-2.0
"""`python -m sambaflow` and the command `sambaflow`: the program of the library, which inspects, runs and measures PEFs."""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the program; its status is the process's."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "sambaflow")
    try:
        os.execv(program, ["sambaflow", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"sambaflow: {program} cannot be started ({error.strerror}): install the package again")


if __name__ == "__main__":
    main()
