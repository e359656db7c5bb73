#!/usr/bin/env bash
# bundle.sh - packs a built minisgl with the shared libraries that it needs, for hosts that have none of them.
#
#   tools/bundle.sh [--out DIR] [--no-model] [--no-archive]
#
# Makes DIR (default: dist/minisgl) with bin/, lib/, launch.sh, README.txt and the demo model, and DIR.tar.xz of it. On the other host:
#
#   tar xf minisgl.tar.xz && minisgl/launch.sh --once "Once upon a time"
#
# It needs a C library there as new as the one here. CUDA's own libraries are not packed: the driver's host has them.
set -euo pipefail

out=''
model=yes
archive=yes
build=${MINISGL_BUILD:-build}

say() { printf 'bundle: %s\n' "$*" >&2; }

while [ $# -gt 0 ]; do
    case $1 in
    --help | -h)
        sed -n '2,10s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --out)
        [ $# -ge 2 ] || { say "--out needs a value"; exit 2; }
        out=$2
        shift
        ;;
    --out=*) out=${1#*=} ;;
    --no-model) model=no ;;
    --no-archive) archive=no ;;
    *) say "unknown option '$1' (try --help)"; exit 2 ;;
    esac
    shift
done

[ -z "$out" ] || out=$(realpath -m -- "$out")
cd "$(dirname "$0")/.."
out=${out:-dist/minisgl}

programs=()
for name in minisgl-tokenizer minisgl-scheduler minisgl-detokenizer minisgl minisgl-msg; do
    for path in "$build"/*_proc/"$name" "$build"/tools/*/"$name"; do
        [ ! -x "$path" ] || programs+=("$path")
    done
done
[ ${#programs[@]} -ge 4 ] || { say "$build is not built: run tools/setup.sh"; exit 1; }

# Modules that are opened at run time, when asked for.
modules=()
for path in "$build"/kernels/*.so "$build"/kernels/*/*.so; do
    [ ! -f "$path" ] || modules+=("$path")
done

if [ -e "$out" ] && [ ! -x "$out/bin/minisgl-scheduler" ] && [ -n "$(ls -A "$out")" ]; then
    say "$out is there and is no bundle: remove it, or give another --out"
    exit 1
fi
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
cp "${programs[@]}" ${modules[@]+"${modules[@]}"} "$out/bin/"
cp tools/launch.sh LICENSE "$out/"
[ $model = no ] || cp -r tools/demo_model "$out/"

write_readme() {
    local start='./launch.sh --detach' which='the demo model in demo_model/; --model DIR serves another'
    if [ $model = no ]; then
        start='./launch.sh --detach --model DIR'
        which='DIR, a Hugging Face directory'
    fi
    local gpu='This one was built for CPUs alone.'
    [[ " ${modules[*]-}" != *minisgl_cuda* ]] || gpu="On an NVIDIA GPU: add --device cuda. CUDA's own libraries must be on this host."
    cat <<EOF
minisgl, a small LLM serving engine: the programs, and the libraries that they need.
It runs from this folder; nothing is installed.

Start a server in the background ($which):

    $start

Use it, look at it, stop it:

    bin/minisgl generate "Once upon a time"
    bin/minisgl chat
    bin/minisgl status
    ./launch.sh --stop

The logs are in \$XDG_RUNTIME_DIR/minisgl/default/*.log, or, without that variable, in
/tmp/minisgl-UID/default/*.log, where UID is the number that \`id -u\` prints. "default" is the
server's name: --name NAME gives another.

$gpu
More options: ./launch.sh --help, bin/minisgl --help, and --help of each program in bin/.
Licence: see LICENSE.
EOF
}
write_readme >"$out/README.txt"

# Everything but the C library's family, the compiler's, and CUDA's.
keep_out='/(ld-linux|libc|libm|libpthread|libdl|librt|libresolv|libstdc\+\+|libgcc_s|libcuda|libcudart|libcublas|libcublasLt|libnvidia[^/]*)[.-]'
ldd "${programs[@]}" ${modules[@]+"${modules[@]}"} | awk '$3 ~ /^\// {print $3}' | sort -u | grep -vE "$keep_out" | while read -r library; do
    cp -L "$library" "$out/lib/"
done
strip --strip-unneeded "$out"/bin/* "$out"/lib/*
say "$out: $(du -sh "$out" | cut -f1), $(find "$out/lib" -type f | wc -l) libraries"
if [ $archive = yes ]; then
    tar -C "$(dirname "$out")" -cJf "$out.tar.xz" "$(basename "$out")"
    say "$out.tar.xz: $(du -h "$out.tar.xz" | cut -f1)"
fi
