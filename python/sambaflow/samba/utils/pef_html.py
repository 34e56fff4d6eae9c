# SPDX-License-Identifier: Apache-2.0
"""A PEF as tables in a notebook: plain HTML without styles or scripts, every word escaped, nothing loaded from anywhere."""

from html import escape


def _amount(number, unit, step, prefixes):
    value, prefix = float(number), 0
    while value >= step and prefix < len(prefixes) - 1:
        value, prefix = value / step, prefix + 1
    digits = 0 if prefix == 0 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {prefixes[prefix]}{unit}"


def flops_text(number):
    """
    >>> flops_text(1234567)
    '1.23 MFLOP'
    """
    return _amount(number, "FLOP", 1000, ("", "k", "M", "G", "T", "P", "E"))


def bytes_text(number):
    """
    >>> bytes_text(999), bytes_text(5 * 1024**2)
    ('999 B', '5.00 MiB')
    """
    return _amount(number, "B", 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))


def tables(meta):
    """The HTML of a PefMeta."""
    sections = [
        (
            s["id"],
            s["type"],
            s["stage_count"],
            flops_text(s["flops"]),
            bytes_text(s["bytes"]),
            bytes_text(s["fast_memory"]),
            s["name"],
        )
        for s in meta.sections
    ]
    memory = [(part.replace("_", ", "), bytes_text(size)) for part, size in meta.memory.items()]
    shown = {name: t for name, t in meta.tensors.items() if t["kind"] in ("input", "parameter", "output")}
    tensors = [(name, t["kind"], t["dtype"], "×".join(map(str, t["shape"])) or "1") for name, t in shown.items()]
    return (
        f"<div><p><b>{escape(meta.path)}</b></p>"
        + _table(("section", "type", "stages", "work", "moved", "fast memory", "name"), sections)
        + _table(("device memory", "size"), memory)
        + f"<details><summary>{len(tensors)} inputs, parameters and outputs</summary>"
        + _table(("tensor", "kind", "dtype", "shape"), tensors)
        + "</details>"
        + (_table(("hyperparameter", "value"), meta.hyperparameters.items()) if meta.hyperparameters else "")
        + "</div>"
    )


def _table(heads, rows):
    def line(tag, cells):
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table><thead>{line('th', heads)}</thead><tbody>{''.join(line('td', row) for row in rows)}</tbody></table>"
