#!/usr/bin/env python3
"""Compares our ids with those of the `tokenizers` package from PyPI, for random texts of mixed scripts.

    diff_encode.py BUILD/tests/fuzz/encode_filter TOKENIZER.JSON... [--count N] [--seed S] [--variants]

For each file: N texts, each with special tokens parsed, split (parse_special false), and with
add_special_tokens. --variants also changes the file at random (split behaviours, Digits, prefix space,
flags of added tokens) for every 1000 texts. Prints the first differences; exit code 1 if there is one.
Needs `pip install tokenizers`. It is no part of CI.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile

try:
    from tokenizers import Tokenizer
except ImportError:
    Tokenizer = None

RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x61, 0x7A), (0x41, 0x5A), (0x30, 0x39), (0xA0, 0xFF), (0x100, 0x17F), (0x180, 0x24F),
    (0x250, 0x2AF), (0x2B0, 0x2FF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x4FF), (0x530, 0x58F), (0x590, 0x5FF),
    (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0xF00, 0xFFF),
    (0x1100, 0x11FF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x209F), (0x2100, 0x218F),
    (0x2190, 0x22FF), (0x2460, 0x24FF), (0x2E80, 0x2FDF), (0x3000, 0x303F), (0x3040, 0x30FF), (0x3130, 0x318F),
    (0x4E00, 0x9FFF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFE6F),
    (0xFF00, 0xFFEF), (0x10000, 0x100FF), (0x1D100, 0x1D1FF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF),
    (0x20000, 0x2A6DF), (0xE0100, 0xE01EF), (0, 0x1F), (0x80, 0x9F), (0xE000, 0xE0FF), (0, 0x10FFFF),
]
BITS = [
    "'s", "'t", "'re", "'ve", "'ll", "'LL", "'m", "'d", "'\u017f", "'", " ", "  ", "   ", "\n", "\r\n", "\n\n", " \n",
    "\t", "\u00a0", "\u3000", "\u2028", "\x85", "the ", " and", "123", "4567", "a\u0301", "e\u0323\u0301", "\u1100\u1161\u11a8",
    "\u212b", "\u0344", "\u09c7\u09be", "int main(void)\n{\n    return 0;\n}\n", "https://x.y/z?a=b&c=d", "...", "!!!",
    "\u2019s", "HTTPServer", "camelCase", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "\U0001F1E9\U0001F1EA", "/", "//\n",
    "<", "<|", "|>", "foo", "cafe\u0301", "caf\u00e9", "\x00", "\ufeff", "\u200b", "<mask", "\u4f60\u597d\uff0c\u4e16\u754c", "\u306e\u3067\u3059",
]
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def random_text(rng, specials, words):
    parts = []
    for _ in range(rng.choice([1, 2, 3, 5, 8, 20, 60])):
        kind = rng.random()
        if kind < 0.30:
            low, high = rng.choice(RANGES)
            parts.append("".join(chr(c) for c in (rng.randint(low, high) for _ in range(rng.choice([1, 1, 2, 4, 9])))
                                 if not 0xD800 <= c < 0xE000))
        elif kind < 0.60:
            parts.append(rng.choice(BITS))
        elif kind < 0.68 and specials:
            special = rng.choice(specials)
            if rng.random() < 0.2:
                special = special[rng.randint(0, len(special)):]
            parts.append(special)
        elif kind < 0.683:  # long enough for BPE to work in windows
            letters = rng.choice(["a", "ab", "abcdefghijklmnopqrstuvwxyz", "!?.", " ", "\n", "\u4f60\u597d\u4e16\u754c", "aeiostn",
                                  "\u0301\u0323", "\U0001F600\U0001F601", "\u0430\u043e\u0435\u0438\u043d\u0442"])
            parts.append("".join(rng.choices(letters, k=rng.randint(600, 6000))))
        elif kind < 0.72:
            parts.append(rng.choice("a.\u4f60 7\u0301\n") * rng.choice([2, 3, 17, 70, 200]))
        else:
            parts.append(rng.choice(words))
    return "".join(parts)


def vary(rng, config):
    """The same tokenizer with another pipeline."""
    config = json.loads(json.dumps(config))
    splits = []
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        if rng.random() < 0.3:
            splits.append({"type": "Digits", "individual_digits": rng.random() < 0.5})
            continue
        pattern = rng.choice([
            {"String": rng.choice([" ", "a", "the", "\n", ". ", "\u4f60"])},
            {"Regex": "\\p{N}{1,3}"}, {"Regex": "\\p{N}"}, {"Regex": "\\p{N}+"},
            {"Regex": "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"},
            {"Regex": TEKKEN},
            {"Regex": "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}] + PATTERNS)
        splits.append({"type": "Split", "pattern": pattern, "behavior": rng.choice(BEHAVIORS),
                       "invert": rng.random() < 0.3})
    splits.append({"type": "ByteLevel", "add_prefix_space": rng.random() < 0.3, "trim_offsets": True,
                   "use_regex": rng.random() < 0.5})
    config["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": splits}
    config["normalizer"] = rng.choice([None, {"type": "NFC"}])
    config["model"]["ignore_merges"] = rng.random() < 0.3
    for token in config["added_tokens"]:
        for flag in ("single_word", "lstrip", "rstrip", "normalized", "special"):
            token[flag] = rng.random() < 0.4
    return config


PATTERNS = []


def collect_patterns(value):
    if isinstance(value, dict):
        if "Regex" in value:
            PATTERNS.append(value)
        for item in value.values():
            collect_patterns(item)
    elif isinstance(value, list):
        for item in value:
            collect_patterns(item)


def compare(filter_path, path, texts, shown):
    requests = [{"text": t, "parse_special": p, "add_special_tokens": a}
                for t in texts for p, a in ((True, False), (False, False), (True, True))]
    lines = "".join(json.dumps(r) + "\n" for r in requests).encode()
    out = subprocess.run([filter_path, path], input=lines, stdout=subprocess.PIPE, check=True).stdout
    ours = [json.loads(line).get("ids") for line in out.splitlines()]
    tokenizer = Tokenizer.from_file(path)
    theirs = [[]] * len(requests)
    for split in (False, True):
        tokenizer.encode_special_tokens = split
        for add in (False, True):
            places = [i for i, r in enumerate(requests)
                      if r["parse_special"] == (not split) and r["add_special_tokens"] == add]
            encoded = tokenizer.encode_batch([requests[i]["text"] for i in places], add_special_tokens=add)
            for i, one in zip(places, encoded):
                theirs[i] = one.ids
    bad = len(requests) - len(ours)
    for request, a, b in zip(requests, ours, theirs):
        if a != b:
            bad += 1
            if shown < 5:
                shown += 1
                print(f"{path}: {json.dumps(request)}\n  ours   {a}\n  theirs {b}")
    return bad, len(requests)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filter")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variants", action="store_true")
    args = parser.parse_args()
    if not Tokenizer:
        sys.exit("diff_encode: needs `pip install tokenizers`")
    rng = random.Random(args.seed)
    failed = 0
    for path in args.files:
        with open(path, encoding="utf-8") as file:
            collect_patterns(json.load(file).get("pre_tokenizer"))
    for path in args.files:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        specials = [token["content"] for token in config["added_tokens"]]
        tokenizer = Tokenizer.from_file(path)
        words = [tokenizer.decode([i]) for i in range(min(60000, len(config["model"]["vocab"])))]
        done = bad = 0
        while done < args.count:
            n = min(1000 if args.variants else 20000, args.count - done)
            texts = [random_text(rng, specials, words) for _ in range(n)]
            with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as varied:
                used = path
                if args.variants:
                    changed = vary(rng, config)
                    json.dump(changed, varied)
                    varied.flush()
                    used = varied.name
                more, num = compare(args.filter, used, texts, bad)
                if more and args.variants:
                    print("  with", json.dumps({k: changed[k] for k in ("normalizer", "pre_tokenizer", "added_tokens")}))
            bad += more
            done += n
        print(f"{path}: {done} texts, {bad} differences")
        failed += bad
    sys.exit(1 if failed else 0)


main()
