#!/bin/sh
# Holds predictions against a server: fits it for a minute, then measures runs that were not fitted and predicts each.
#
#   hold.sh URL [FOLDER]     needs tacho on the PATH, and the server's limits in LIMITS, such as
#                            LIMITS="--max-num-seqs 64 --max-num-batched-tokens 2048" hold.sh http://127.0.0.1:8000
#
# MODEL and TOKENIZER name them where the server's own name does not do. SECONDS_EACH is the length of a run (20).
# Prints a table in Markdown: measured, predicted and the error of each number; results stay in FOLDER.
set -eu
url=$1
folder=${2:-held}
each=${SECONDS_EACH:-20}
set --
[ -z "${MODEL:-}" ] || set -- "$@" --model "$MODEL"
[ -z "${TOKENIZER:-}" ] || set -- "$@" --tokenizer "$TOKENIZER"
mkdir -p "$folder"

tacho fit --base-url "$url" "$@" ${LIMITS:-} --seconds 60 --output "$folder/profile.json"

keys="mean_ttft_ms median_ttft_ms p99_ttft_ms mean_tpot_ms median_tpot_ms p99_tpot_ms mean_e2el_ms p99_e2el_ms output_throughput"

# A number of a result on one line of JSON.
number() {
    grep -o "\"$2\": [-0-9.e+]*" "$1" | head -n 1 | cut -d ' ' -f 2
}

echo
echo "| run | $(echo $keys | sed 's/ / | /g') |"
echo "|:---|$(for key in $keys; do printf -- '---:|'; done)"

# The name of a run, then its flags of tacho serve.
hold() {
    name=$1
    shift
    tacho serve --base-url "$url" --ignore-eos --percentile-metrics ttft,tpot,itl,e2el --disable-tqdm --no-log --summary-json "$folder/$name.json" "$@" \
        > "$folder/$name.txt" 2>&1 || { echo "$name failed: see $folder/$name.txt" >&2; return 0; }
    tacho predict --sim-profile "$folder/profile.json" --ignore-eos --percentile-metrics ttft,tpot,itl,e2el --summary-json "$folder/$name.predicted.json" "$@" \
        > "$folder/$name.predicted.txt" 2>&1 || { echo "$name: see $folder/$name.predicted.txt" >&2; return 0; }
    printf '| %s |' "$name"
    for key in $keys; do
        real=$(number "$folder/$name.json" "$key")
        predicted=$(number "$folder/$name.predicted.json" "$key")
        awk -v real="${real:-0}" -v predicted="${predicted:-0}" 'BEGIN {
            if (real + 0 == 0) printf " – |"; else printf " %.1f (%.1f, %+.0f %%) |", real, predicted, (predicted / real - 1) * 100 }'
    done
    echo
}

# What it bears: everything at once, so that its own throughput is the capacity.
hold capacity "$@" --num-prompts 100 --random-input-len 200 --random-output-len 60 --seed 11
rate=$(number "$folder/capacity.json" request_throughput)
share() { awk -v rate="$rate" -v share="$1" 'BEGIN { printf "%.3f", rate * share }'; }
count() { awk -v rate="$rate" -v share="$1" -v each="$each" 'BEGIN { printf "%d", rate * share * each + 20 }'; }
for part in 0.3 0.5 0.7 0.95; do
    hold "rate-$part" "$@" --num-prompts "$(count $part)" --random-input-len 200 --random-output-len 60 \
        --request-rate "$(share $part)" --seed 12
done
hold long-prompts "$@" --num-prompts 24 --random-input-len 600 --random-output-len 40 --max-concurrency 4 --seed 21
hold long-answers "$@" --num-prompts 32 --random-input-len 60 --random-output-len 150 --max-concurrency 16 --seed 22
hold shared-prefix "$@" --num-prompts 60 --random-prefix-len 256 --random-input-len 60 --random-output-len 50 \
    --max-concurrency 8 --seed 23
hold mixed "$@" --num-prompts 60 --random-input-len 250 --random-output-len 60 --random-range-ratio 0.8 \
    --request-rate "$(share 0.6)" --burstiness 0.5 --seed 24
