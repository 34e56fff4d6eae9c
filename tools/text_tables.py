# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/unicode_table.h: the classes of characters that the components of tokenizer.json go by, each as `tokenizers`
has it, which goes by another version of Unicode for each. They are found by asking it. Usage: text_tables.py OUTPUT, with the
package tokenizers installed; that of 0.23.3 made the file at hand."""

import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split()

NEWER_DECOMPOSED = [(0x1E030, 0x1E06D), (0xA7F1, 0xA7F1), (0x105C9, 0x105C9), (0x105E4, 0x105E4), (0x11383, 0x113C8)]
NEWER_DECOMPOSED += [(0x16121, 0x16128), (0x16D68, 0x16D6A), (0x1CCD6, 0x1CCF9)]


def chunks(size):
    return (ALL[i : i + size] for i in range(0, len(ALL), size))


def removed(splitter):
    """The characters that a pre-tokenizer leaves out."""
    found = set()
    for chunk in chunks(4096):
        kept = set()
        for _, (begin, end) in splitter.pre_tokenize_str("".join(map(chr, chunk))):
            kept.update(range(begin, end))
        found.update(c for i, c in enumerate(chunk) if i not in kept)
    return found


def begins(splitter, before="a"):
    """The characters that begin a piece after another one."""
    found = set()
    for chunk in chunks(2048):
        starts = {begin for _, (begin, _) in splitter.pre_tokenize_str("".join(before + chr(c) for c in chunk))}
        found.update(c for i, c in enumerate(chunk) if 2 * i + 1 in starts)
    return found


def joined(splitter):
    """The characters that stay in one piece with an "a" before them."""
    found = set()
    for chunk in chunks(2048):
        pieces = {where for _, where in splitter.pre_tokenize_str(" ".join("a" + chr(c) for c in chunk))}
        found.update(c for i, c in enumerate(chunk) if (3 * i, 3 * i + 2) in pieces)
    return found


def becomes(normalizer):
    """{character: what it becomes}, of those that change."""
    told = ((c, normalizer.normalize_str(chr(c))) for c in ALL)
    return {c: text for c, text in told if text != chr(c)}


def gone(normalizer):
    return {c for c, text in becomes(normalizer).items() if text == ""}


def scripts():
    """[(first, last, number)]: characters of one number have one script. Those that go with any have no row."""
    splitter = pre_tokenizers.UnicodeScripts()
    told = begins(splitter, "a") | begins(splitter, "я")
    examples, rows = [], []
    for piece, _ in splitter.pre_tokenize_str("".join(chr(c) for c in ALL if c in told)):
        c = piece[0]
        asked = "".join(e + c for e in examples)
        starts = {begin for _, (begin, _) in splitter.pre_tokenize_str(asked)} if asked else set()
        same = [i for i in range(len(examples)) if 2 * i + 1 not in starts]
        if not same:
            same = [len(examples)]
            examples.append(c)
        rows += [(first, last, same[0]) for first, last in ranges(map(ord, piece))]
    return rows


def unnormalized():
    """Characters of newer versions of Unicode than normalization goes by: it leaves them as they are, between any others."""
    found = set()
    for form in ("NFD", "NFC", "NFKD", "NFKC"):
        theirs = getattr(normalizers, form)()
        found.update(c for c in ALL if theirs.normalize_str(chr(c)) != unicodedata.normalize(form, chr(c)))
    for c in ALL:  # marks that do not move before one of the highest class
        if 0 < unicodedata.combining(chr(c)) < 240 and normalizers.NFD().normalize_str("a\u0345" + chr(c))[-1] == chr(c):
            found.add(c)
    # Newer than Python's own tables: decompositions of Unicode 15 to 17, and marks that only a newer component knows.
    for first, last in NEWER_DECOMPOSED:
        found.update(range(first, last + 1))
    marks = removed(pre_tokenizers.Split(Regex(r"\p{M}"), "removed"))
    return found | (marks - gone(normalizers.StripAccents()))


def ranges(characters):
    rows = []
    for c in sorted(characters):
        if rows and rows[-1][1] == c - 1:
            rows[-1][1] = c
        else:
            rows.append([c, c])
    return rows


def write(out, kind, name, rows, comment):
    out.append(f"/* {comment} */")
    out.append(f"static const {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(f"0x{x:x}" if isinstance(x, int) else x for x in row) + "},"
        if len(line) + len(item) > 128:
            out.append(line)
            line = "   "
        line += item
    out += [line, "};", ""]


def main(path):
    out = [
        "/* SPDX-License-Identifier: Apache-2.0",
        " *",
        f" * Made by tools/text_tables.py with tokenizers {tokenizers.__version__}: classes of characters as ranges, in order.",
        " * Each component there goes by the version of Unicode of the library it is made with, so the classes are of several.",
        " *",
        " * Needs and gives nothing else: one file includes it, src/text/unicode.c. */",
        "/* clang-format off */",
        "",
    ]
    span, three = "samba_span", "samba_span_kind"
    write(out, span, "punctuation", ranges(removed(pre_tokenizers.Punctuation("removed"))), "Punctuation, BertPreTokenizer")
    clean = gone(normalizers.BertNormalizer(True, False, False, False))
    write(out, span, "unclean", ranges(clean), "left out by clean_text of BertNormalizer")
    write(out, span, "nonspacing", ranges(gone(normalizers.BertNormalizer(False, False, True, False))), "its strip_accents")
    write(out, span, "marks", ranges(gone(normalizers.StripAccents())), "StripAccents")
    write(out, span, "numeric", ranges(begins(pre_tokenizers.Digits(True))), "Digits")
    write(out, span, "word", ranges(joined(pre_tokenizers.Whitespace())), "Whitespace, single_word")
    write(out, span, "unnormalized", ranges(unnormalized()), "NFC and its like leave them alone")
    lower = {c: t for c, t in becomes(normalizers.Lowercase()).items() if len(t) == 1}
    write(out, span, "lowered", [(c, ord(t)) for c, t in lower.items()], "Lowercase: from, to; U+0130 becomes two characters")
    write(out, three, "scripts", scripts(), "UnicodeScripts: first, last, number of the script; Han has the kana")
    for name, category in (("letters", "L"), ("numbers", "N")):
        have = removed(pre_tokenizers.Split(Regex(rf"\p{{{category}}}"), "removed"))
        write(out, span, name, ranges(have), f"regular expressions: \\p{{{category}}}")
    rows = []
    for category in CATEGORIES:
        have = removed(pre_tokenizers.Split(Regex(rf"\p{{{category}}}"), "removed"))
        more = {c for c in have if unicodedata.category(chr(c)) != category}
        rows += [(first, last, f"'{category[0]}' << 8 | '{category[1]}'") for first, last in ranges(more)]
    write(out, three, "newer", sorted(rows), "regular expressions: general categories that Unicode 14 has not")
    out.append("/* clang-format on */")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


main(sys.argv[1])
