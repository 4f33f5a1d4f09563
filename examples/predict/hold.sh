#!/bin/sh
# Holds predictions against a server: fits it for less than a minute, measures runs that were not fitted, predicts each.
#
#   hold.sh URL [FOLDER]     needs tacho on the PATH, or its command in TACHO
#
# MODEL and TOKENIZER name them where the server's own name does not do. LIMITS are flags of tacho fit that give limits
# which the server does not tell, such as LIMITS="--max-num-seqs 64" or LIMITS="--server-log server.log". SECONDS_EACH is
# the length of a run (6), FIT_SECONDS that of all runs that are fitted (54). Everything is made in ROUNDS rounds (5), each
# with its share of the fit, so that slow minutes of the machine meet all runs. Caches are emptied before each, which vLLM
# does under VLLM_SERVER_DEV_MODE=1; RESET= leaves that out, for servers that have none: rounds send the same prompts.
# MEASURE= measures nothing and predicts again what FOLDER holds; REFIT= keeps its profile, too.
# Prints a table in Markdown: the mean of the rounds, and in brackets how far the prediction is off, then how far it is off on
# average when the profile is made as slow as makes each run's own mean TPOT right: that is no prediction, and tells the
# model's errors from those of a machine whose speed changes. The last column has how slow that is in each round. Results stay
# in FOLDER.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
url=$1
folder=${2:-held}
each=${SECONDS_EACH:-6}
rounds=${ROUNDS:-5}
seconds=$(awk -v all="${FIT_SECONDS:-54}" -v rounds="$rounds" 'BEGIN { printf "%.1f", all / rounds }')
tacho=${TACHO:-tacho}
reset=${RESET---reset-caches}
profile=$folder/profile.json
set --
[ -z "${MODEL:-}" ] || set -- "$@" --model "$MODEL"
[ -z "${TOKENIZER:-}" ] || set -- "$@" --tokenizer "$TOKENIZER"
mkdir -p "$folder"

names="capacity rate-0.3 rate-0.5 rate-0.7 rate-0.85 rate-0.95 long-prompts long-answers shared-prefix bursts trace conversations"
keys="mean_ttft_ms median_ttft_ms p99_ttft_ms mean_tpot_ms median_tpot_ms p99_tpot_ms mean_e2el_ms median_e2el_ms p99_e2el_ms request_throughput"

# A number of a result.
number() {
    grep -o "\"$2\": [-0-9.e+]*" "$1" | head -n 1 | cut -d ' ' -f 2
}

# What a prediction says a number is about, and between what it lies; nothing where nothing is left to chance.
ranges() {
    awk -v key="$2" '$1 == key && $4 == "to" { print $2, $3, $5 }' "$1.txt"
}

# What a prediction says a number is.
about() {
    said=$(ranges "$1" "$2" | cut -d ' ' -f 1)
    echo "${said:-$(number "$1.json" "$2")}"
}

# The mean of the numbers that come in, one to a line.
mean() {
    awk '{ sum += $1 } END { if (NR) print sum / NR }'
}

# The flags of a run; rates are shares of what the server bears for long by the first part of the fit.
flags() {
    rate=$(number "$folder/bears.json" request_throughput)
    share() { awk -v rate="$rate" -v share="$1" 'BEGIN { printf "%.3f", rate * share }'; }
    count() { awk -v rate="$rate" -v share="$1" -v each="$each" 'BEGIN { printf "%d", rate * share * each + 1 }'; }
    # As many as there are in six seconds, in as many seconds as a run has.
    some() { awk -v six="$1" -v each="$each" 'BEGIN { printf "%d", six * each / 6 }'; }
    larger() { if [ "$1" -gt "$2" ]; then echo "$1"; else echo "$2"; fi; }
    lengths="--random-input-len 200 --random-output-len 60"
    case $1 in
        capacity) echo "--num-prompts $(larger "$(some 110)" "$(count 1)") $lengths --seed 11" ;;
        rate-*) echo "--num-prompts $(count "${1#rate-}") $lengths --request-rate $(share "${1#rate-}") --seed 12" ;;
        long-prompts) echo "--num-prompts $(some 28) --random-input-len 900 --random-output-len 40 --max-concurrency 4 --seed 21" ;;
        long-answers) echo "--num-prompts $(some 16) --random-input-len 60 --random-output-len 200 --max-concurrency 8 --seed 22" ;;
        shared-prefix) echo "--num-prompts $(some 48) --random-prefix-len 384 --random-input-len 60 --random-output-len 50 --max-concurrency 8 --seed 23" ;;
        bursts) echo "--num-prompts $(count 0.6) --random-input-len 250 --random-output-len 60 --random-range-ratio 0.8 --request-rate $(share 0.6) --burstiness 0.5 --seed 24" ;;
        trace) echo "--dataset-name timed_trace --dataset-path $here/trace.jsonl --timed-trace-chunk-hash-size 64 --num-prompts $(count 0.7) --time-scale $(awk -v rate="$rate" 'BEGIN { printf "%.4f", 1 / rate / 0.7 }') --seed 26" ;;
        conversations) echo "--num-prompts $(some 20) --multi-turn --multi-turn-num-turns 3 --multi-turn-concurrency 10 --random-input-len 200 --per-turn-input-len 80 --random-output-len 40 --seed 27" ;;
    esac
}

# measure FILE FLAGS…, predict PROFILE FILE FLAGS…
measure() {
    file=$1
    shift
    $tacho serve --base-url "$url" --ignore-eos --percentile-metrics ttft,tpot,itl,e2el --disable-tqdm --no-log $reset \
        --ready-check-timeout-sec 0 --save-result --save-detailed --result-filename "$file.json" "$@" > "$file.txt" 2>&1 ||
        echo "$file failed: see $file.txt" >&2
}
predict() {
    by=$1 file=$2
    shift 2
    $tacho predict --sim-profile "$by" --ignore-eos --percentile-metrics ttft,tpot,itl,e2el --save-result --save-detailed \
        --result-filename "$file.json" "$@" > "$file.txt" 2>&1 || echo "$file: see $file.txt" >&2
}

# Everything that needs the server.
rounds() {
    for round in $(seq "$rounds"); do
        mkdir -p "$folder/fit-$round"
        $tacho fit --base-url "$url" "$@" ${LIMITS:-} --seconds "$seconds" --save-runs "$folder/fit-$round" \
            --output "$folder/fit-$round/profile.json" > "$folder/fit-$round.txt" 2>&1 || [ $? = 3 ]
        [ "$round" != 1 ] ||
            predict "$folder/fit-1/profile.json" "$folder/bears" "$@" --num-prompts 1000 --random-input-len 200 --random-output-len 60
        for name in $names; do
            measure "$folder/$name-$round" "$@" $(flags "$name")
        done
    done
}

# The profile of a machine that is so many times as slow.
slowed() {
    awk -v times="$1" '{ if (match($0, /_us": [0-9.e+-]+/)) {
        split(substr($0, RSTART, RLENGTH), part, ": ");
        $0 = substr($0, 1, RSTART - 1) part[1] ": " part[2] * times substr($0, RSTART + RLENGTH) } print }' "$profile"
}

# Predicts a run of a round by the profile that is as slow as its own tokens were; leaves how slow that is in $times.
by_own_speed() {
    round=$1 name=$2 times=1
    shift 2
    real=$(number "$folder/$name-$round.json" mean_tpot_ms)
    for turn in 1 2 3 4; do
        slowed "$times" > "$folder/slowed.json"
        predict "$folder/slowed.json" "$folder/$name-$round.own" "$@" $(flags "$name")
        found=$(number "$folder/$name-$round.own.json" mean_tpot_ms)
        # A slower server has more under way: less than the whole way, several times.
        times=$(awk -v times="$times" -v real="$real" -v found="$found" 'BEGIN { printf "%.4f", times * (1 + 0.75 * (real / found - 1)) }')
    done
}

# The measured numbers of a run and how far the predicted ones are off, both ways.
row() {
    name=$1
    shift
    predict "$profile" "$folder/$name.predicted" "$@" $(flags "$name")
    speeds=""
    for round in $(seq "$rounds"); do
        by_own_speed "$round" "$name" "$@"
        speeds="$speeds $(printf %.2f "$times")"
    done
    printf '| %s |' "$name"
    for key in $keys; do
        real=$(for round in $(seq "$rounds"); do number "$folder/$name-$round.json" "$key"; done | mean)
        raw=$(about "$folder/$name.predicted" "$key")
        own=$(for round in $(seq "$rounds"); do about "$folder/$name-$round.own" "$key"; done | mean)
        awk -v real="$real" -v raw="$raw" -v own="$own" \
            'BEGIN { printf " %.1f (%+.0f / %+.0f %%) |", real, (raw / real - 1) * 100, (own / real - 1) * 100 }'
        echo "$key $raw $real $own" >> "$folder/errors"
        range=$(ranges "$folder/$name.predicted" "$key" | cut -d ' ' -f 2,3)
        for round in $(seq "$rounds"); do
            [ -z "$range" ] || echo "$(number "$folder/$name-$round.json" "$key") $range" >> "$folder/ranges"
        done
    done
    echo "$speeds |"
}

# How many numbers are within what was aimed at.
tally() {
    awk '{ most = ($1 ~ /^p99/) ? 0.2 : 0.1; kind = ($1 ~ /^p99/) ? "p99 within 20 %" : "means, medians and throughput within 10 %";
        all[kind]++; raw[kind] += within($2 / $3, most); own[kind] += within($4 / $3, most) }
        function within(ratio, most) { return ratio - 1 <= most && 1 - ratio <= most }
        END { for (kind in all) print "- " kind ": " raw[kind] " of " all[kind] "; by its own speed: " own[kind] }' "$folder/errors"
    awk '{ within += $1 >= $2 && $1 <= $3 } END { print "- numbers of single runs within the predicted ranges: " within + 0 " of " NR }' "$folder/ranges"
}

[ -n "${MEASURE-yes}" ] && rounds "$@"
[ -z "${REFIT-yes}" ] || $tacho fit "$folder"/fit-*/fit-*.json --base-url "$url" "$@" ${LIMITS:-} --output "$profile" || [ $? = 3 ]
: > "$folder/errors"
: > "$folder/ranges"
echo
echo "| run | $(echo $keys | sed 's/ / | /g') | times as slow |"
echo "|:---|$(for key in $keys; do printf -- '---:|'; done):---|"
for name in $names; do
    row "$name" "$@"
done
echo
tally
