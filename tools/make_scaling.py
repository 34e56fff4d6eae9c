#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables and pictures of docs/scaling.md again: compiles GPT-2 with 124 million and with 1.5 billion parameters, asks
`sambaflow scale` what many replicas of a stated machine would do, and writes the answers between the marks in docs/scaling.md and
into docs/scaling-*.svg. Usage: tools/make_scaling.py BUILD_FOLDER"""

import json
import pathlib
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = "<!-- made by tools/make_scaling.py -->\n", "<!-- end -->\n"
FLOPS = "2T,200GB"
SAMPLES = 8
MODELS = {"124m": ("GPT-2, 124 million parameters", 12, 12, 768), "1.5b": ("GPT-2, 1.5 billion parameters", 48, 25, 1600)}


def compile_model(build, folder, name, layers, heads, width):
    """The path of the PEF; nothing of it runs."""
    options = {"n-layer": layers, "n-head": heads, "n-embd": width, "block-size": 1024, "vocab-size": 50257}
    command = [build / "examples/gpt2", "compile", "--data-parallel", f"--batch-size={SAMPLES}", f"--output-folder={folder}"]
    command += [f"--pef-name={name}"] + [f"--{option}={value}" for option, value in options.items()]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / name / f"{name}.pef"


def scale(build, pef, picture):
    """What the command says of the three networks."""
    command = [build / "sambaflow", "scale", pef, "--flops", FLOPS, "--svg", picture, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def table_of(title, picture, answer):
    """A model's part of the page."""
    networks = [network["name"] for network in answer["networks"]]
    cells = {(row["network"], row["replicas"]): row for row in answer["rows"]}
    counts = sorted({row["replicas"] for row in answer["rows"]})
    lines = [
        f"**{title}**: {answer['exchanged_bytes'] / 1e6:,.0f} MB of gradients, {answer['samples']} samples of 1,024 tokens",
        f"a replica; a step alone {answer['alone_ms'] / 1e3:.2f} s. Step, share of the exchange that is hidden, efficiency:",
        "",
        "| replicas | " + " | ".join(networks) + " | samples/s, " + networks[-1] + " |",
        "| ---: |" + " ---: |" * (len(networks) + 1),
    ]
    for count in counts:
        row = [f"{count:,}"]
        for network in networks:
            its = cells[network, count]
            row.append(f"{its['step_ms'] / 1e3:.2f} s, {100 * its['hidden']:.0f} %, {100 * its['efficiency']:.1f} %")
        row.append(f"{cells[networks[-1], count]['samples_per_second']:,.1f}")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines + ["", f"![{title}: efficiency over the number of replicas]({picture})", "", ""])


def main():
    """Writes docs/scaling.md between its marks, and the pictures."""
    build = pathlib.Path(sys.argv[1]).resolve()
    text = "\n"
    with tempfile.TemporaryDirectory() as folder:
        for name, (title, *sizes) in MODELS.items():
            picture = f"scaling-{name}.svg"
            pef = compile_model(build, pathlib.Path(folder), f"gpt2-{name}", *sizes)
            text += table_of(title, picture, scale(build, pef, DOCS / picture))
    page = (DOCS / "scaling.md").read_text()
    head, rest = page.split(BEGIN)
    (DOCS / "scaling.md").write_text(head + BEGIN + text + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
