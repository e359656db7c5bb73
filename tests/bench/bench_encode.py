#!/usr/bin/env python3
"""Encoding beside the `tokenizers` package from PyPI: same file, same texts, one thread, ids compared.

    bench_encode.py BUILD/tests/bench/bench_encode TOKENIZER.JSON [NAME=TEXT.txt]...

Without texts: English (the standard library's docstrings), C (this project's sources, system headers),
Chinese (made of the tokenizer's own Chinese tokens, frequent ones first), a mix, and texts made to be slow.
Each in pieces of 1 KB and whole. Needs `pip install tokenizers`.
"""
import array
import glob
import os
import pathlib
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
try:
    from tokenizers import Tokenizer
except ImportError:
    Tokenizer = None

MAX_BYTES = 1500000


def read(paths):
    out = []
    for path in sorted(paths):
        try:
            out.append(pathlib.Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        if sum(map(len, out)) > 3 * MAX_BYTES:
            break
    return out


def cut(text, size=MAX_BYTES):
    return text.encode()[:size].decode(errors="ignore")


def english():
    library = sysconfig.get_paths()["stdlib"]
    found = []
    for text in read(glob.glob(library + "/*.py") + glob.glob(library + "/[a-h]*/*.py")):
        found += [re.sub(r"\n +", "\n", doc) for doc in re.findall(r'"""(.*?)"""', text, re.S) if len(doc) > 200]
    return cut("\n".join(found))


def c_code():
    root = pathlib.Path(__file__).resolve().parents[2]
    own = [p for p in glob.glob(str(root / "*/*.[ch]")) if "unicode_tables" not in p]
    return cut("\n".join(read(own + glob.glob("/usr/include/*.h"))))


def chinese(tokenizer, rng):
    tokens = [t for t in map(lambda i: tokenizer.decode([i]), range(tokenizer.get_vocab_size()))
              if t and all("\u4e00" <= c <= "\u9fff" for c in t)]
    weights = [1 / (rank + 20) for rank in range(len(tokens))]
    out, size = [], 0
    while size < MAX_BYTES and tokens:
        sentence = "".join(rng.choices(tokens, weights, k=rng.randint(4, 14))) + rng.choice("，，，。。？！、\n")
        out.append(sentence)
        size += 3 * len(sentence)
    return "".join(out)


def mixed(parts, rng):
    others = ["Привет, как дела? Это пример текста. ", "ما هو الطقس اليوم؟ ", "안녕하세요, 만나서 반갑습니다. ",
              "これは日本語の文章です。", "¿Cómo estás? El niño comió piñas. ", "😀👍🏽 great!! ", "3.14159 × 10⁻⁷ "]
    pieces = [text[i:i + 600] for text in parts for i in range(0, min(len(text), 300000), 600)]
    rng.shuffle(pieces)
    return cut("".join(p + rng.choice(others) * 3 for p in pieces))


def slow(rng):
    letters = "abcdefghijklmnopqrstuvwxyz"
    return {
        "slow: A": "A" * 1000000,
        "slow: letters": "".join(rng.choices(letters, k=1000000)),
        "slow: Han": "".join(chr(rng.randint(0x4E00, 0x9FFF)) for _ in range(333333)),
        "slow: spaces": " " * 1000000,
        "slow: digits": "".join(rng.choices("0123456789", k=1000000)),
        "slow: emoji": "".join(chr(rng.randint(0x1F300, 0x1F64F)) for _ in range(250000)),
        "slow: marks": "".join(chr(rng.randint(0x300, 0x34F)) for _ in range(500000)),
        "slow: e + mark": "e\u0301" * 333333,
        "slow: any": "".join(chr(c) for c in (rng.randint(1, 0x2FFFF) for _ in range(300000)) if not 0xD800 <= c < 0xE000),
        "slow: <|": "<|im_en" * 140000,
        "slow: words": "".join(" " + "".join(rng.choices(letters, k=rng.randint(3, 12))) for _ in range(120000)),
        "slow: symbols": "".join(rng.choices("!#$%&()*+,-./:;<=>?@[]^_{|}~", k=1000000)),
    }


def pieces_of(data, size):
    """As bench_encode.c cuts them."""
    out, start = [], 0
    while start < len(data):
        end = start + size if size and len(data) - start > size else len(data)
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        out.append(data[start:end].decode())
        start = end
    return out


def main():
    if len(sys.argv) < 3:
        print(__doc__)
        sys.exit(0 if sys.argv[1:] == ["--help"] else 2)
    if not Tokenizer:
        sys.exit("bench_encode: needs `pip install tokenizers`")
    bench, path = sys.argv[1:3]
    rng = random.Random(7)
    tokenizer = Tokenizer.from_file(path)
    if len(sys.argv) > 3:
        texts = {arg.split("=", 1)[0]: pathlib.Path(arg.split("=", 1)[1]).read_text(encoding="utf-8")
                 for arg in sys.argv[3:]}
    else:
        texts = {"English": english(), "C code": c_code(), "Chinese": chinese(tokenizer, rng)}
        texts["mixed"] = mixed(list(texts.values()), rng)
        texts.update(slow(rng))
    print(f"{'text':16} {'piece':>6} {'MB/s':>8} {'first':>8} {'tokenizers':>11} {'times':>7}  ids")
    failed = False
    for name, text in texts.items():
        data = text.encode()
        for size in (1024, 0):
            with tempfile.TemporaryDirectory() as folder:
                file, ids = pathlib.Path(folder, "text"), pathlib.Path(folder, "ids")
                file.write_bytes(data)
                out = subprocess.run([bench, path, str(file), str(size), str(ids)], check=True, stdout=subprocess.PIPE)
                best, first, load_ms, resident = map(float, out.stdout.split())
                ours = array.array("i", ids.read_bytes())
            parts = pieces_of(data, size)
            start = time.perf_counter()
            theirs = [tokenizer.encode(part).ids for part in parts]
            rate = len(data) / (time.perf_counter() - start) / 1e6
            same = ours.tolist() == [i for part in theirs for i in part]
            failed |= not same
            print(f"{name:16} {size or 'whole':>6} {best:8.1f} {first:8.1f} {rate:11.2f} {best / rate:7.1f}  "
                  f"{'equal' if same else 'DIFFERENT'}", flush=True)
    print(f"load {load_ms:.1f} ms, resident {resident:.1f} MB")
    sys.exit(1 if failed else 0)


main()
