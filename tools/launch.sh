#!/usr/bin/env bash
# launch.sh - starts tokenizer, scheduler and detokenizer as one server, and keeps watch over them.
#
#   launch.sh                                 the embedded demo model on the CPU
#   launch.sh --model DIR --device cuda       another model, on a GPU
#   launch.sh --once "Once upon a time"       start, print the completion alone, stop
#   launch.sh --detach --name NAME            leave it running in the background
#   launch.sh --stop --name NAME              stop that one
#
#   --model DIR      a Hugging Face directory (default: the demo model)
#   --device D       cpu, cuda or sim            --dtype T    auto, float32 or bfloat16
#   --name NAME      of the server (default: default)
#   --run-dir DIR    where servers have their folders (default: $XDG_RUNTIME_DIR/minisgl or /tmp/minisgl-UID)
#   --timeout S      how long the start may take (default: 600)
#   --shutdown-grace S   how long running requests may go on when it stops (default: 0.5)
#
# Every other option goes to the process that knows it: see minisgl-tokenizer, minisgl-scheduler and
# minisgl-detokenizer --help; with --once also to `minisgl generate`. Sources that are not built yet it builds first.
# Exit code: 0 stopped as asked (or drained), 1 a process failed (its log line is shown), 2 wrong usage.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
here=${script%/*} # in a bundle the programs lie beside this script
root=${here%/*}
build=$(realpath -m -- "${MINISGL_BUILD:-$root/build}")
self=tools/launch.sh
[ ! -x "$here/bin/minisgl-scheduler" ] || self=./launch.sh

trap '' XFSZ  # a file that may not grow is a full disk, here and in all that is started
exec {err}>&2 # what is said is heard also where bash's own notices of killed children are not wanted
log='' # the same in the run directory: who started it in the background no longer listens
say() {
    printf 'launch: %s\n' "$*" >&"$err"
    [ -z "$log" ] || { printf '%(%H:%M:%S)T launch: %s\n' -1 "$*" >>"$log"; } 2>/dev/null || true
}
die() { say "$1"; exit "${2:-1}"; }
usage() { sed -n '2,20s/^# \{0,1\}//p' "$script"; }

model=''
name=default
mode=''
once_text=''
timeout_s=600
run_parent=${MINISGL_RUN_DIR:-}
run_parent_from=MINISGL_RUN_DIR= # what it was named by
rest=()

take() { # option, its value: empty where a variable of the caller's shell was not set
    [ -n "${2-}" ] || die "$1 needs a value" 2
}

set_mode() { # mode
    [ -z "$mode" ] || die "--$mode and --$1 do not go together" 2
    mode=$1
}

while [ $# -gt 0 ]; do
    case $1 in
    --*=*)
        set -- "${1%%=*}" "${1#*=}" "${@:2}"
        continue
        ;;
    --help | -h) usage; exit 0 ;;
    --model | --model-path) take "$@"; model=$2; shift ;;
    --name) take "$@"; name=$2; shift ;;
    --run-dir) take "$@"; run_parent=$2 run_parent_from='--run-dir '; shift ;;
    --timeout) take "$@"; timeout_s=$2; shift ;;
    --detach) set_mode detach ;;
    --once) take "$@"; set_mode once; once_text=$2; shift ;;
    --stop)
        # Behind --once it is the client's: a string that ends the text.
        if [ "$mode" = once ]; then
            take "$@"
            rest+=("$1" "$2")
            shift
        else
            set_mode stop
        fi
        ;;
    *) rest+=("$1") ;;
    esac
    shift
done
[ -n "$mode" ] || mode=serve
[ $mode != stop ] || [ ${#rest[@]} -eq 0 ] || die "--stop takes --name and --run-dir, not '${rest[0]}'" 2
[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,40}$ ]] || die "--name takes letters, digits, '.', '_' and '-', not '$name'" 2
[[ $timeout_s =~ ^[0-9]+$ ]] || die "--timeout takes a number of seconds, not '$timeout_s'" 2

where='' # what a command must say beside --name to find the server
if [ -n "$run_parent" ]; then
    run_parent=$(realpath -m -- "$run_parent")
    [ "$run_parent" = "${MINISGL_RUN_DIR:-}" ] || where="MINISGL_RUN_DIR=$run_parent "
elif [ -n "${XDG_RUNTIME_DIR:-}" ]; then
    run_parent=$XDG_RUNTIME_DIR/minisgl run_parent_from=''
else
    run_parent=/tmp/minisgl-$(id -u) run_parent_from=''
    # In /tmp anyone may have made it first, and would then hold the sockets that prompts go to.
    if [ -e "$run_parent" ] || [ -L "$run_parent" ]; then
        [ ! -L "$run_parent" ] && [ -O "$run_parent" ] && [ -z "$(find "$run_parent" -maxdepth 0 -perm /022)" ] ||
            die "$run_parent is not a directory of yours alone: remove it, or give --run-dir"
    fi
fi
run_dir=$run_parent/$name

# ---- --stop

process_is_launcher() { # pid
    [ -n "$1" ] && kill -0 "$1" 2>/dev/null && grep -qz 'launch\.sh' "/proc/$1/cmdline" 2>/dev/null
}

# A launcher that was killed leaves its number behind, which may be that of another server's by now; the lock goes with it.
is_locked() {
    [ -e "$run_dir/lock" ] && ! flock -n "$run_dir/lock" true
}

stop_server() {
    local pid
    pid=$(cat "$run_dir/launcher.pid" 2>/dev/null || true)
    is_locked && process_is_launcher "$pid" || die "no server named '$name' is running"
    kill -TERM "$pid"
    for _ in $(seq 300); do
        process_is_launcher "$pid" || { say "stopped '$name'"; return; }
        sleep 0.1
    done
    die "'$name' (pid $pid) did not stop within 30 s"
}

if [ $mode = stop ]; then
    stop_server
    exit 0
fi

# ---- the model

if [ -z "$model" ]; then
    for model in "$here/demo_model" "$root/tools/demo_model"; do
        [ ! -f "$model/config.json" ] || break
    done
fi
[ -e "$model" ] || die "--model $model: no such directory" 2
[ -d "$model" ] && [ -f "$model/config.json" ] ||
    die "--model $model: is no Hugging Face directory with a config.json (get_model.sh, in tools/ of the sources, fetches one)" 2
model=$(cd "$model" && pwd)
[[ $model$run_dir != *[[:cntrl:]]* ]] || die "control characters in '$model' or '$run_dir'" 2
# Socket paths are limited to 107 bytes by the system.
[ "$(printf %s "$run_dir" | wc -c)" -le 80 ] ||
    die "$run_dir is too long for socket paths (80 bytes at most): use --run-dir or a shorter --name" 2

# ---- the programs

find_program() {
    local path
    for path in "$here/bin/$1" "$build"/*_proc/"$1" "$build"/tools/*/"$1"; do
        if [ -x "$path" ]; then
            echo "$path"
            return
        fi
    done
}

is_built() {
    local name
    for name in minisgl-tokenizer minisgl-scheduler minisgl-detokenizer minisgl; do
        [ -n "$(find_program $name)" ] || return 1
    done
}

if ! is_built && [ -x "$root/tools/setup.sh" ]; then
    say "not built yet: running tools/setup.sh (installs packages and builds: about two minutes on two cores, four with a CUDA toolkit)"
    MINISGL_BUILD=$build "$root/tools/setup.sh" >&2
fi
tokenizer=$(find_program minisgl-tokenizer)
scheduler=$(find_program minisgl-scheduler)
detokenizer=$(find_program minisgl-detokenizer)
client=$(find_program minisgl)
for program in tokenizer scheduler detokenizer client; do
    [ -n "${!program}" ] || die "minisgl-$program is not in $build: run tools/setup.sh"
done

# ---- options to the processes that know them

declare -A knows
learn() { # program variable
    local option kind
    while read -r option kind; do
        knows["$1 $option"]=$kind
    done < <("${!1}" ${2:+"$2"} --list-options)
}
learn tokenizer # a wrong LOG_LEVEL is said once
LOG_LEVEL='' learn scheduler
LOG_LEVEL='' learn detokenizer
[ $mode != once ] || LOG_LEVEL='' learn client generate

tokenizer_args=() scheduler_args=() detokenizer_args=() client_args=()
device=cpu
grace=0.5 # seconds that running requests have when the server stops
i=0
while [ $i -lt ${#rest[@]} ]; do
    arg=${rest[$i]}
    hint='try --help'
    [[ $once_text != --[a-z]* ]] || hint="--once took '$once_text' for its text"
    [[ $arg == --?* ]] || die "unexpected argument '$arg' ($hint)" 2
    case ${arg#--} in
    endpoint | scheduler | detokenizer | input | control | run)
        die "$arg is this script's own: for other sockets start the processes by hand (proto/README.md of the sources)" 2
        ;;
    replay) die "--replay is for minisgl-scheduler alone" 2 ;;
    esac
    known=''
    for program in tokenizer scheduler detokenizer client; do
        kind=${knows["$program ${arg#--}"]:-}
        [ -n "$kind" ] || continue
        declare -n args=${program}_args
        args+=("$arg")
        if [ "$kind" = value ]; then
            take "${rest[@]:i}"
            args+=("${rest[$((i + 1))]}")
            [ "$arg" != --shutdown-grace ] || grace=${rest[$((i + 1))]}
            [ "$arg" != --device ] || device=${rest[$((i + 1))]}
        fi
        known=$kind
    done
    [ -n "$known" ] || die "unknown option '$arg' (try --help)" 2
    [ "$known" != value ] || i=$((i + 1))
    i=$((i + 1))
done

# The scheduler takes more spellings of a number; here it is reckoned with.
[[ $grace =~ ^[0-9]{1,6}(\.[0-9]*)?$ ]] || die "--shutdown-grace takes a number of seconds, not '$grace'" 2

make_run_dir() { # fails when it vanishes meanwhile: a --once that ends takes its own with it
    umask 077
    [ -d "$run_parent" ] || [ ! -e "$run_parent" ] || die "$run_parent_from$run_parent: is no directory"
    local reason
    reason=$(mkdir -p "$run_parent" "$run_dir" 2>&1) ||
        die "$run_dir cannot be made: ${reason##*: } (--run-dir or MINISGL_RUN_DIR gives servers another place)"
    [ -O "$run_dir" ] || [ ! -e "$run_dir" ] || die "$run_dir belongs to another user"
    chmod 0700 "$run_dir" 2>/dev/null || return 1
    # As much as all files of a start take: who is out of space half way cannot say why.
    { printf '%65536s' '' >"$run_dir/probe"; } 2>/dev/null || {
        rm -f "$run_dir/probe"
        [ -e "$run_dir" ] || return 1
        die "$run_dir cannot be written to: is the disk full?"
    }
    rm -f "$run_dir/probe"
}

# ---- --detach: the same script as a daemon, until it says that it is ready

if [ $mode = detach ]; then
    make_run_dir || make_run_dir
    # Its end of the pipe closes when it dies, so there is an answer in any case. And when ours does, it stops.
    trap 'rm -f "$run_dir/launcher.log.$$"; exit 130' INT TERM HUP
    exec {answer}< <(trap "" PIPE; MINISGL_DETACHED=1 exec setsid --fork "$script" --model "$model" --name "$name" \
        ${where:+--run-dir "$run_parent"} --timeout "$timeout_s" "${rest[@]}" 3>&1 </dev/null >/dev/null 2>"$run_dir/launcher.log.$$" {err}>&-)
    status=1
    read -r -t $((timeout_s + 5)) -u "$answer" line || line=''
    case $line in
    ready\ *) printf '%s\n' "${line#ready }"; status=0 ;;
    exit\ *) status=${line#exit } ;;
    esac
    [ $status = 0 ] || grep . "$run_dir/launcher.log.$$" >&2 || say "'$name' did not start"
    rm -f "$run_dir/launcher.log.$$"
    exit $status
fi

# ---- the run directory and its lock

[ -z "${MINISGL_DETACHED:-}" ] || trap 'echo "exit $?" >&3' EXIT
is_ours=''
for _ in 1 2 3; do
    make_run_dir || continue
    { exec {lock}>"$run_dir/lock"; } 2>/dev/null || continue
    flock -n "$lock" || break
    [ ! "$run_dir/lock" -ef "/proc/$$/fd/$lock" ] || { is_ours=yes; break; }
done
if [ -z "$is_ours" ]; then
    die "a server named '$name' is running (pid $(cat "$run_dir/launcher.pid" 2>/dev/null || echo unknown)): stop it with ${where}$self --stop --name $name, or give another --name"
fi
log=$run_dir/launcher.log
rm -f "$run_dir"/*.ipc "$run_dir"/*.pid "$run_dir/run.json" "$log"
echo $$ >"$run_dir/launcher.pid"
run=$((($(date +%s%N) ^ ($$ << 20)) & 0x7fffffffffff | 1))

declare -A pid log_of ready_fd
processes=(scheduler tokenizer detokenizer)
ipc=ipc://$run_dir
json() { sed 's/[\\"]/\\&/g' <<<"$1"; }
json_model=$(json "$model") json_ipc=$(json "$ipc")

# The last line that a process logged, or what it is to say that it logged none.
last_words() {
    tail -n 1 "${log_of[$1]}" 2>/dev/null | grep . || echo "(nothing in ${log_of[$1]})"
}

ask_to_stop() { # processes
    local process
    for process; do
        [ -z "${pid[$process]:-}" ] || kill -TERM "${pid[$process]}" 2>/dev/null || true
    done
}

# Waits until none of them is alive, for so many times 0.02 s.
await_end() { # times, processes
    local times=$1 process alive
    shift
    for ((; times > 0; times--)); do
        alive=''
        for process; do
            [ -z "${pid[$process]:-}" ] || ! kill -0 "${pid[$process]}" 2>/dev/null || alive=yes
        done
        [ -n "$alive" ] || return 0
        sleep 0.02 || true
    done
}

# Asks all that run to stop, and makes sure.
stop_all() { # times to wait
    local process
    ask_to_stop tokenizer scheduler detokenizer
    await_end "${1:-150}" "${processes[@]}"
    for process in "${processes[@]}"; do
        [ -z "${pid[$process]:-}" ] || kill -KILL "${pid[$process]}" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -f "$run_dir"/*.ipc "$run_dir"/*.pid "$run_dir/run.json"
}

# How a process ended, and the last line that it logged. A signal from outside has nothing to do with what it logged before: then
# only a line that tells of trouble is shown.
how_ended() { # process, exit status
    local how="exit code $2" words
    words=$(last_words "$1")
    if [ "$2" -gt 128 ]; then
        how="signal $(($2 - 128))"
        [[ $words != '(nothing in '* && ! $words =~ ^"minisgl-$1 "[0-9:.]+" "(info|debug): ]] || words=''
    fi
    echo "minisgl-$1 ended ($how)${words:+: $words}"
}

# Each when those before it have passed on what they had: so every request that was accepted has its last message.
# Does not return when one of them failed at that.
stop_in_order() {
    local process status failed=''
    ask_to_stop tokenizer
    await_end 100 tokenizer
    ask_to_stop scheduler
    await_end $(((10#${grace%%.*} + 3) * 50)) scheduler
    ask_to_stop tokenizer scheduler detokenizer
    await_end 150 "${processes[@]}"
    trap '' INT TERM HUP
    for process in "${processes[@]}"; do
        [ -n "${pid[$process]:-}" ] || continue
        if kill -0 "${pid[$process]}" 2>/dev/null; then
            say "minisgl-$process did not stop when asked to, and was killed: $(last_words "$process")"
            failed=yes
            continue
        fi
        status=0
        wait "${pid[$process]}" 2>/dev/null || status=$?
        pid[$process]=''
        case $status in
        0 | 130 | 143) ;; # as it was asked to, or twice, or before it was listening
        *) say "$(how_ended "$process" $status)"; failed=yes ;;
        esac
    done
    stop_all 1
    [ -z "$failed" ] || exit 1
}

start() { # process, program, arguments
    local process=$1 program=$2
    shift 2
    log_of[$process]=$run_dir/$process.log
    # A pipe with both ends here before the child is there: opening one end alone would wait for it.
    local fifo=$run_dir/$process.ready both fd
    rm -f "$fifo"
    mkfifo -m 0600 "$fifo"
    exec {both}<>"$fifo" {fd}<"$fifo"
    rm -f "$fifo"
    ready_fd[$process]=$fd
    # Not the lock: a child that outlives us must not keep the name. Nor the pipe of --detach.
    # Its bars of progress belong on our terminal, if there is one; its log does not.
    # When we die before setpriv has asked for a signal none comes, so the child looks once whose it still is.
    MINISGL_PROGRESS_FD=9 setpriv --pdeathsig TERM sh -c '[ "$PPID" = "$0" ] || exit 1; exec "$@"' $$ "$program" "$@" \
        </dev/null >&"$both" 9>&"$err" 2>"${log_of[$process]}" {lock}>&- {err}>&- {both}>&- {fd}<&- 3>&- &
    pid[$process]=$!
    exec {both}>&-
    echo "${pid[$process]}" >"$run_dir/$process.pid"
}

# Whether the scheduler's last line says that it found no card, no driver or no CUDA module that would do.
found_no_device() {
    [[ $(last_words scheduler) =~ 'NVIDIA driver'|'error: cuda: '|'CUDA device' ]]
}

# Says which process ended and why, stops the others. Never returns.
fail() { # process
    local status=0 was_ready=''
    trap '' INT TERM HUP # all is being stopped
    [ ! -e "$run_dir/run.json" ] || was_ready=yes
    wait "${pid[$1]}" 2>/dev/null || status=$?
    [ $status -eq 0 ] || [ -z "$asker" ] || kill -TERM "$asker" 2>/dev/null || true
    say "$(how_ended "$1" $status)"
    [ "$mode" != once ] || head -n -1 "${log_of[$1]}" | tail -n 5 | sed 's/^/  /' >&"$err" # whoever wants one text does not look for logs
    [ "$1/$device/$was_ready" != scheduler/cuda/ ] || ! found_no_device || say "leave out --device cuda to run on the CPU"
    pid[$1]=''
    [ -z "${tick:-}" ] || kill "$tick" 2>/dev/null || true
    # One that was told to drain has ended well: those behind it may, too.
    [ $status -ne 0 ] || stop_in_order
    stop_all
    [ $status -ne 0 ] || [ -z "$was_ready" ] || exit 0
    # A wrong option of a process is wrong usage of this script.
    [ $status -ne 2 ] || exit 2
    exit 1
}

# Until a signal comes, or that child ends: the first process that ends before ends all. A child that dies between the look and
# the wait is seen at the next tick; a signal there ends the tick.
watch() { # [child]
    local process
    while [ -z "$interrupted" ] && { [ -z "${1:-}" ] || kill -0 "$1" 2>/dev/null; }; do
        for process in "${processes[@]}"; do
            kill -0 "${pid[$process]}" 2>/dev/null || [ -n "$interrupted" ] || fail "$process"
        done
        if [ -z "$tick" ] || ! kill -0 "$tick" 2>/dev/null; then
            sleep 2 {lock}>&- {err}>&- >/dev/null 2>&1 &
            tick=$!
        fi
        [ -n "$interrupted" ] || wait -n "${pid[@]}" ${1:+"$1"} "$tick" || true
    done
    [ -z "$tick" ] || kill "$tick" 2>/dev/null || true
}

# No command substitution while this may strike: bash 5.2 then takes the handler for a part of it, and fails.
interrupted=''
asker='' # the client of --once
tick=''  # the child that the watch waits for besides
trap 'interrupted=yes; [ -z "$tick" ] || kill "$tick" 2>/dev/null || true' INT TERM HUP

start scheduler "$scheduler" --model "$model" --run "$run" --endpoint "$ipc/scheduler.ipc" \
    --detokenizer "$ipc/detokenizer.ipc" --control "$ipc/scheduler.control.ipc" \
    --shutdown-grace "$grace" "${scheduler_args[@]}"
start detokenizer "$detokenizer" --model "$model" --run "$run" --endpoint "$ipc/reply.ipc" \
    --input "$ipc/detokenizer.ipc" --scheduler "$ipc/scheduler.ipc" \
    --control "$ipc/detokenizer.control.ipc" "${detokenizer_args[@]}"
start tokenizer "$tokenizer" --model "$model" --run "$run" --endpoint "$ipc/front.ipc" \
    --scheduler "$ipc/scheduler.ipc" --control "$ipc/tokenizer.control.ipc" "${tokenizer_args[@]}"

deadline=$((SECONDS + timeout_s))
for process in "${processes[@]}"; do
    ready=''
    while [ -z "$ready" ] && [ -z "$interrupted" ]; do
        if read -r -t 1 -u "${ready_fd[$process]}" line; then
            [[ $line != *ready* ]] || ready=$line
            continue
        elif [ $? -le 128 ]; then
            fail "$process" # end of file: it is gone
        fi
        for other in "${processes[@]}"; do
            kill -0 "${pid[$other]}" 2>/dev/null || fail "$other"
        done
        [ $SECONDS -lt $deadline ] || {
            trap '' INT TERM HUP
            say "minisgl-$process was not ready within $timeout_s s: $(last_words "$process")"
            stop_all
            exit 1
        }
    done
done

# From here on a child that is killed is said by say(); bash would print its whole command besides.
exec 2>/dev/null

if [ -z "$interrupted" ]; then
    cat 2>&"$err" >"$run_dir/run.json.new" <<EOF
{"name": "$name", "run": $run, "pid": $$, "model": "$json_model",
 "endpoints": {"tokenizer": "$json_ipc/front.ipc", "detokenizer": "$json_ipc/reply.ipc",
  "tokenizer_control": "$json_ipc/tokenizer.control.ipc", "scheduler_control": "$json_ipc/scheduler.control.ipc",
  "detokenizer_control": "$json_ipc/detokenizer.control.ipc"}}
EOF
    mv "$run_dir/run.json.new" "$run_dir/run.json" 2>&"$err"

    if [ $mode = once ]; then
        status=0
        MINISGL_RUN_DIR=$run_parent "$client" generate "$once_text" --name "$name" "${client_args[@]}" \
            <&0 2>&"$err" {lock}>&- {err}>&- &
        asker=$!
        watch "$asker"
        if [ -n "$interrupted" ]; then
            kill -TERM "$asker" 2>/dev/null || true
            stop_all
            exit 130
        fi
        wait "$asker" || status=$?
        stop_all
        # After an error its logs are of use.
        [ "$status" -ne 0 ] || { rm -f "$run_dir"/*.log "$run_dir/lock" && rmdir "$run_dir" || true; }
        exit "$status"
    fi

    option=''
    [ "$name" = default ] || option=" --name $name"
    # Absolute, unless the caller stands where the README's commands begin.
    try=$client
    case $PWD in "$root" | "$here") try=${client#"$PWD"/} ;; esac
    prompt='"Once upon a time"'
    [ -f "$model/tokenizer.json" ] || prompt='--ids 1,2,3'
    say_ready="minisgl '$name' is ready (${model##*/}). Try: $where$try generate $prompt$option"
    if [ -n "${MINISGL_DETACHED:-}" ]; then
        echo "ready $say_ready" >&3 2>/dev/null || interrupted=yes # whoever waited has gone
        trap - EXIT
        exec 3>&-
    else
        # In a child of its own: nobody may be there to read it.
        (printf '%s\n' "$say_ready" 2>/dev/null) || say "its readiness cannot be written to the standard output; it serves all the same"
        [ ! -t 1 ] || echo "Ctrl-C stops it."
    fi
fi

watch
[ "$mode" != once ] || { stop_all; exit 130; } # before the text was there
trap 'say "stopping at once"; stop_all 1; exit 130' INT TERM
stop_in_order
[ -n "${MINISGL_DETACHED:-}" ] || [ ! -t 1 ] || printf '\r%s\n' "minisgl '$name' has stopped." || true # over ^C
exit 0
