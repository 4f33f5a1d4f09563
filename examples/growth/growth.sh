#!/bin/sh
# What one machine carries with 1, 2, 4, 8 ranks against as many simulators: growth.sh TACHO [SECONDS [RANKS...]]
# Each rank has a core, and its simulator the next one. One row per number of ranks: tokens/s of all, CPU seconds of all ranks
# per million tokens, and the client's verdict on itself; then the same with rows left in files: the difference is what
# gathering costs.
set -eu
tacho=$1 seconds=${2:-8}
[ $# -lt 2 ] && shift || shift 2
counts=${*:-1 2 4 8}
cores=$(nproc)
work=$(mktemp -d)
sims=
trap 'for pid in $sims; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT

simulators() { # RANKS
    sims= urls= rank=0
    while [ $rank -lt "$1" ]; do
        taskset -c $(((2 * rank + 1) % cores)) "$tacho" sim --port $((19000 + rank)) >/dev/null 2>&1 &
        sims="$sims $!" urls="$urls,http://127.0.0.1:$((19000 + rank))" rank=$((rank + 1))
    done
    sleep 3
}

start() { # RANK RANKS GATHER
    place=
    [ "$2" -eq 1 ] || place="--rank $1 --ranks $2 --rendezvous 127.0.0.1:19990 --gather $3"
    # `times` tells the CPU time of what the shell has started.
    taskset -c $(((2 * $1) % cores)) sh -c '"$@"; code=$?; times >&2; exit $code' sh "$tacho" serve --base-url "${urls#,}" \
        --tokenizer gpt2 --dataset-name random --random-input-len 16 --random-output-len 512 --ignore-eos --workers 1 \
        --max-concurrency $((128 * $2)) --duration "$seconds" --save-result --result-dir "$work" --result-filename r.json \
        $place >"$work/$1.out" 2>"$work/$1.err"
}

measure() { # RANKS GATHER
    simulators "$1"
    rank=0 pids=
    while [ $rank -lt "$1" ]; do
        start $rank "$1" "$2" &
        pids="$pids $!" rank=$((rank + 1))
    done
    for pid in $pids; do wait "$pid" || { cat "$work"/*.err >&2; exit 1; }; done
    for pid in $sims; do kill "$pid" 2>/dev/null || true; done
    cpu=$(for file in "$work"/*.err; do tail -n 1 "$file"; done | sed 's/[ms]/ /g' |
        awk '{ sum += $1 * 60 + $2 + $3 * 60 + $4 } END { print sum }')
    awk -v ranks="$1" -v gather="$2" -v cpu="$cpu" '
        /^Total generated tokens:/ { tokens = $NF }
        /^Output token throughput/ { rate = $NF }
        /^(caveat: )?client:/ { verdict = $0; sub(/^caveat: /, "", verdict) }
        END { printf "| %d | %s | %.0f | %.2f | %s |\n", ranks, gather, rate, cpu * 1e6 / tokens, verdict }' "$work/0.out"
    rm -rf "${work:?}"/*
}

echo "| ranks | rows | output tokens/s | CPU s per million tokens | verdict |"
echo "|---|---|---|---|---|"
for count in $counts; do measure "$count" stream; done
[ "$count" -eq 1 ] || measure "$count" files
