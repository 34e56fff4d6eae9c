# SPDX-License-Identifier: Apache-2.0
"""Mixed text of what lies on a Debian machine: code in C and Python, documentation, the translations of its programs in all their
languages, emoji, and now and then bytes that are no UTF-8. Given as pieces of some 64 KiB, in an order that a seed draws."""

import gettext
import pathlib
import random
import sys

EMOJI = "👍🏽 👨‍👩‍👧 🇩🇪 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️ ☺︎ 1️⃣ 🎉🎉🎉 🤷🏿‍♀️ 𝔘𝔫𝔦 ﷺ ﬃ ½ Ⅷ ㍿ ｶﾞ é ệ \u200b\u00ad\ufeff\u2028 \u0301 \U0010ffff".split(" ")
SIZE = 1 << 16


def translations(rng, most):
    """Texts of every language's catalogues, cut short where a language has many."""
    languages = {}
    for path in pathlib.Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo"):
        languages.setdefault(path.parent.parent.name, []).append(path)
    for name in sorted(languages):
        left = most
        for path in rng.sample(sorted(languages[name]), len(languages[name])):
            try:
                with open(path, "rb") as file:
                    told = gettext.GNUTranslations(file)
            except (OSError, UnicodeError, ValueError, IndexError):  # IndexError: of a header that says nothing of plurals
                continue
            text = "\n".join(word for word in told._catalog.values() if isinstance(word, str))[:left]
            left -= len(text)
            yield text.encode("utf-8", "replace")
            if left <= 0:
                break


def files(rng, folder, pattern, most):
    paths = sorted(pathlib.Path(folder).rglob(pattern))
    for path in rng.sample(paths, len(paths)):
        if most <= 0 or not path.is_file():
            break
        data = path.read_bytes()[: 1 << 19]
        most -= len(data)
        yield data


def pieces(size, seed):
    """Texts as bytes, `size` in all but for the last's; the first four are one letter, digits, spaces, no space, 1 MB each."""
    rng = random.Random(seed)
    million = 1 << 20
    yield b"a" * million
    yield "".join(rng.choice("0123456789") for _ in range(million)).encode()
    yield "".join(rng.choice(" " * 50 + "\t\n\r\u3000") for _ in range(million)).encode()[:million]
    yield "".join(rng.choice("abcdefghijklmnopqrstuvwxyzABCé世_-+") for _ in range(million)).encode()
    left = size - 4 * million
    everything = b"".join(translations(rng, 1 << 19))
    parts = [everything[i : i + SIZE] for i in range(0, len(everything), SIZE)]  # cut within characters, too
    rng.shuffle(parts)
    parts = parts[: 1 + left // 2 // SIZE]
    folders = (("/usr/include", "*.h*"), ("/usr/share/doc", "*"), (str(pathlib.Path(sys.prefix)), "*.py"), ("/usr/lib", "*.py"))
    for number, (folder, pattern) in enumerate(folders):  # a share each of what is left, more where others have less
        most = max(0, left - sum(map(len, parts))) // (len(folders) - number)
        text = b"".join(files(rng, folder, pattern, most))[:most]
        parts += [text[i : i + SIZE] for i in range(0, len(text), SIZE)]
    rng.shuffle(parts)
    sent = 4 * million
    for part in parts:
        part = bytearray(part)
        for _ in range(rng.randint(0, 5)):
            at = rng.randrange(len(part))
            part[at:at] = (" ".join(rng.choices(EMOJI, k=rng.randint(1, 30)))).encode()
        if rng.random() < 0.2:
            for _ in range(rng.randint(1, 20)):
                part[rng.randrange(len(part))] = rng.randrange(256)
        sent += len(part)
        yield bytes(part)
        if sent >= size:
            return
