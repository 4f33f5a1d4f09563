#!/bin/sh
# Holds predictions against a server: fits it for a minute, then measures runs that were not fitted and predicts each.
#
#   hold.sh URL [FOLDER]     needs tacho on the PATH, or its command in TACHO
#
# MODEL and TOKENIZER name them where the server's own name does not do. LIMITS are flags of tacho fit that give limits
# which the server does not tell, such as LIMITS="--max-num-seqs 64" or LIMITS="--server-log server.log". SECONDS_EACH is
# the length of a run (12). Each is measured REPEAT times (3), in rounds, and the quickest of them is held against: what
# other tenants of a machine take from a server no model of the server knows. Between runs the server's caches are emptied,
# which vLLM does under VLLM_SERVER_DEV_MODE=1; RESET= leaves that out. PROFILE is a profile to hold instead of
# fitting one; PREDICT=1 measures nothing and predicts again what FOLDER holds.
# Prints a table in Markdown: measured, predicted and the error of each number; results stay in FOLDER.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
url=$1
folder=${2:-held}
each=${SECONDS_EACH:-12}
repeat=${REPEAT:-3}
tacho=${TACHO:-tacho}
reset=${RESET---reset-caches}
profile=${PROFILE:-$folder/profile.json}
set --
[ -z "${MODEL:-}" ] || set -- "$@" --model "$MODEL"
[ -z "${TOKENIZER:-}" ] || set -- "$@" --tokenizer "$TOKENIZER"
mkdir -p "$folder"

[ -n "${PROFILE:-}${PREDICT:-}" ] ||
    $tacho fit --base-url "$url" "$@" ${LIMITS:-} --seconds 56 --keep "$folder" --output "$profile" || [ $? = 3 ]

keys="mean_ttft_ms median_ttft_ms p99_ttft_ms mean_tpot_ms median_tpot_ms p99_tpot_ms mean_e2el_ms median_e2el_ms p99_e2el_ms request_throughput"

# A number of a result on one line of JSON.
number() {
    grep -o "\"$2\": [-0-9.e+]*" "$1" | head -n 1 | cut -d ' ' -f 2
}

predict() {
    name=$1
    shift
    $tacho predict --sim-profile "$profile" --ignore-eos --percentile-metrics ttft,tpot,itl,e2el \
        --save-result --save-detailed --result-filename "$folder/$name.predicted.json" "$@" \
        > "$folder/$name.predicted.txt" 2>&1 || echo "$name: see $folder/$name.predicted.txt" >&2
}

measure() {
    name=$1
    shift
    $tacho serve --base-url "$url" --ignore-eos --percentile-metrics ttft,tpot,itl,e2el --disable-tqdm --no-log $reset \
        --save-result --save-detailed --result-filename "$folder/$name.$round.json" "$@" \
        > "$folder/$name.$round.txt" 2>&1 || echo "$name failed: see $folder/$name.$round.txt" >&2
}

# The measured and the predicted numbers of a run, and how far the second are off.
row() {
    name=$1
    best=""
    for round in $(seq "$repeat"); do
        one=$(number "$folder/$name.$round.json" mean_e2el_ms)
        [ -z "$one" ] || best=$(echo "${best:-$one $round}" | awk -v one="$one" -v round="$round" \
            '{ print (one < $1) ? one " " round : $0 }')
    done
    file=$folder/$name.${best#* }.json
    printf '| %s |' "$name"
    for key in $keys; do
        awk -v real="$(number "$file" "$key")" -v predicted="$(number "$folder/$name.predicted.json" "$key")" 'BEGIN {
            if (real + 0 == 0) printf " – |"; else printf " %.1f (%+.1f %%) |", real, (predicted / real - 1) * 100 }'
    done
    echo
}

# Does what its first word says for every run that is held; the shares are of what the server bears by its profile.
runs() {
    what=$1
    shift
    lengths="--random-input-len 200 --random-output-len 60"
    $what capacity "$@" --num-prompts 150 $lengths --seed 11
    rate=$(number "$folder/capacity.predicted.json" request_throughput)
    share() { awk -v rate="$rate" -v share="$1" 'BEGIN { printf "%.3f", rate * share }'; }
    count() { awk -v rate="$rate" -v share="$1" -v each="$each" 'BEGIN { printf "%d", rate * share * each + 1 }'; }
    for part in 0.3 0.5 0.7 0.85 0.95; do
        $what "rate-$part" "$@" --num-prompts "$(count $part)" $lengths --request-rate "$(share $part)" --seed 12
    done
    $what long-prompts "$@" --num-prompts 40 --random-input-len 900 --random-output-len 40 --max-concurrency 4 --seed 21
    $what long-answers "$@" --num-prompts 32 --random-input-len 60 --random-output-len 200 --max-concurrency 16 --seed 22
    $what shared-prefix "$@" --num-prompts 80 --random-prefix-len 384 --random-input-len 60 --random-output-len 50 \
        --max-concurrency 8 --seed 23
    $what bursts "$@" --num-prompts "$(count 0.6)" --random-input-len 250 --random-output-len 60 \
        --random-range-ratio 0.8 --request-rate "$(share 0.6)" --burstiness 0.5 --seed 24
    $what trace "$@" --dataset-name timed_trace --dataset-path "$here/trace.jsonl" --timed-trace-chunk-hash-size 64 \
        --num-prompts "$(count 0.7)" --time-scale "$(awk -v rate="$rate" 'BEGIN { printf "%.4f", 1 / rate / 0.7 }')" --seed 26
    $what conversations "$@" --num-prompts 24 --multi-turn --multi-turn-num-turns 3 --multi-turn-concurrency 10 \
        --random-input-len 200 --per-turn-input-len 80 --random-output-len 40 --seed 27
}

runs predict "$@"
[ -n "${PREDICT:-}" ] || for round in $(seq "$repeat"); do
    runs measure "$@"
done
echo
echo "| run | $(echo $keys | sed 's/ / | /g') |"
echo "|:---|$(for key in $keys; do printf -- '---:|'; done)"
runs row
