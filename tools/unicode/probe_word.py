#!/usr/bin/env python3
"""Asks the `tokenizers` package of PyPI which characters its \\w holds and which its Digits splits.

    probe_word.py > word_ranges.json

The flag single_word of an added token is decided by \\w of Rust's regex crate, lstrip and rstrip by its
\\s, and Digits by char::is_numeric. unicode_ref.json knows none of them, so they are observed: an added
token beside each character, and the digits pre-tokenizer over each character.
"""
import json

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers


def ranges(codes):
    out = []
    for code in codes:
        if out and out[-1][1] == code - 1:
            out[-1][1] = code
        else:
            out.append([code, code])
    return out


def main():
    tokenizer = Tokenizer(models.BPE({"q": 0}, []))
    tokenizer.add_tokens([AddedToken("<w>", single_word=True, normalized=False),
                          AddedToken("<l>", lstrip=True, normalized=False),
                          AddedToken("<r>", rstrip=True, normalized=False)])
    word, left, right, number = [], [], [], []
    digits = pre_tokenizers.Digits(individual_digits=True)
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        c = chr(code)
        if not any(token == "<w>" for token in tokenizer.encode("<w>" + c).tokens):
            word.append(code)
        if tokenizer.encode(c + "<l>").offsets[-1][0] == 0:
            left.append(code)
        if tokenizer.encode("<r>" + c).offsets[0][1] == 4:
            right.append(code)
        if len(digits.pre_tokenize_str("q" + c)) == 2:
            number.append(code)
    print(json.dumps({"word": ranges(word), "left_space": ranges(left), "right_space": ranges(right),
                      "number": ranges(number)}, separators=(",", ":")))


main()
