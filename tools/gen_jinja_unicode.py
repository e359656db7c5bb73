#!/usr/bin/env python3
"""Writes tokenizer_proc/jinja_unicode_tables.h: what Python's str methods know of characters.

usage: tools/gen_jinja_unicode.py > tokenizer_proc/jinja_unicode_tables.h

The reference answers were made with Python 3.11 (Unicode 14.0); run it with that version.
"""
import sys
import unicodedata

FLAGS = ["ALPHA", "DECIMAL", "DIGIT", "NUMERIC", "SPACE", "PRINTABLE", "UPPER", "LOWER", "TITLE",
         "WORD", "ID_START", "ID_CONTINUE", "CASED", "CASE_IGNORABLE"]


def flags(code):
    c = chr(code)
    category = unicodedata.category(c)
    sigma = ("A" + c + "\u03a3").lower()[-1] == "\u03c2"  # Python's own final sigma rule
    alone = (c + "\u03a3").lower()[-1] == "\u03c2"
    tests = [c.isalpha(), c.isdecimal(), c.isdigit(), c.isnumeric(), c.isspace(), c.isprintable(),
             c.isupper(), c.islower(), category == "Lt", c.isalnum() or c == "_",
             c.isidentifier(), ("a" + c).isidentifier(), alone and sigma, sigma and not alone]
    return sum(1 << i for i, test in enumerate(tests) if test)


def write_flags(out):
    out.append("static const struct char_flags char_flags[] = {")
    row, previous = [], None
    for code in range(0x110000):
        value = 0 if 0xD800 <= code < 0xE000 else flags(code)
        if value != previous:
            row.append("{0x%x, 0x%x}," % (code, value))
            previous = value
    for i in range(0, len(row), 6):
        out.append("    " + " ".join(row[i:i + 6]))
    out.append("};")


def write_map(out, name, function):
    """Runs of characters that move by the same distance, every `stride`-th one; and the rest."""
    simple, special = [], []
    for code in range(0x80, 0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        mapped = function(chr(code))
        if mapped == chr(code):
            continue
        if len(mapped) > 1:
            special.append((code, [ord(c) for c in mapped]))
        else:
            simple.append((code, ord(mapped) - code))
    runs = []
    for code, delta in simple:
        if runs:
            first, last, stride, run_delta = runs[-1]
            step = code - last
            if run_delta == delta and step in (1, 2) and (first == last or stride == step):
                runs[-1] = (first, code, step, delta)
                continue
        runs.append((code, code, 1, delta))
    out.append("static const struct char_run %s_runs[] = {" % name)
    for i in range(0, len(runs), 3):
        out.append("    " + " ".join("{0x%x, 0x%x, %d, %d}," % run for run in runs[i:i + 3]))
    out.append("};")
    out.append("static const struct char_special %s_specials[] = {" % name)
    for i in range(0, len(special), 3):
        out.append("    " + " ".join(
            "{0x%x, {%s}}," % (code, ", ".join("0x%x" % c for c in chars))
            for code, chars in special[i:i + 3]))
    if not special:
        out.append("    {0, {0}},")
    out.append("};")


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        sys.exit(0 if sys.argv[1:] == ["--help"] else 2)
    out = ["/* jinja_unicode_tables.h - written by tools/gen_jinja_unicode.py from Unicode %s; for"
           % unicodedata.unidata_version,
           " * jinja_unicode.c alone. */", "/* clang-format off */"]
    write_flags(out)
    for name, function in (("upper", str.upper), ("lower", str.lower), ("title", str.title),
                           ("fold", str.casefold)):
        write_map(out, name, function)
    out.append("/* clang-format on */")
    sys.stdout.write("\n".join(out) + "\n")


main()
