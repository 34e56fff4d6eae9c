# SPDX-License-Identifier: Apache-2.0
"""Some seconds of soak.py; `make soak` takes its time."""

import os
import pathlib
import subprocess
import sys


def test_nothing_grows():
    program = pathlib.Path(__file__).with_name("soak.py")
    seed = [os.environ["SAMBAFLOW_SEED"]] if os.environ.get("SAMBAFLOW_SEED") else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    made = subprocess.run(
        [sys.executable, str(program), "5", *seed], env=environment, capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout.count(" actions: resident ") > 1 and made.stdout.splitlines()[-1].startswith("compile ")
