#!/bin/sh
# What benchmark clients cost and report: the same load on one server by tacho, vLLM's clients in Python and Rust, AIPerf and
# GuideLLM. Prints tables in Markdown: CPU time and memory of each client, and its latencies next to the server's own.
#
#   compare.sh URL MODEL TOKENIZER [DIRECTORY]      TOKENIZER is a name on the Hub, or a directory
#
# Start the server without prefix caching. CLIENTS names the clients, STREAMS the levels of concurrency, REQUESTS the requests
# per stream (at least 20 per level), INPUT and OUTPUT the tokens of a request, ROUNDS how often everything is measured.
# TACHO, VLLM, VLLM_RS, AIPERF and GUIDELLM are their commands; vllm-rs is in the directory of the Python package vllm. A
# client that is not installed is left out. CORES pins clients to a list of CPUs, LIMIT ends a run after this many seconds.
# Everything stays in DIRECTORY. Runs that are there already are not repeated, so that an interrupted comparison continues.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
url=$1 model=$2 tokenizer=$3 directory=${4:-clients}
input=${INPUT:-128} output=${OUTPUT:-128}

# client NAME STREAMS REQUESTS SEED DIRECTORY: its command line, one argument to a line.
client() {
    case $1 in
        tacho | vllm | vllm-rs)
            case $1 in
                tacho) echo "${TACHO:-tacho}" ;;
                vllm) printf '%s\n' "${VLLM:-vllm}" bench ;;
                vllm-rs) printf '%s\n' "${VLLM_RS:-vllm-rs}" bench ;;
            esac
            printf '%s\n' serve --backend openai --base-url "$url" --model "$model" --tokenizer "$tokenizer" --dataset-name random \
                --random-input-len "$input" --random-output-len "$output" --ignore-eos --num-prompts "$3" --max-concurrency "$2" \
                --seed "$4" --disable-tqdm --save-result --result-dir "$5" --result-filename result.json ;;
        aiperf)
            printf '%s\n' "${AIPERF:-aiperf}" profile --model "$model" --tokenizer "$tokenizer" --url "$url" \
                --endpoint-type completions --streaming --concurrency "$2" --request-count "$3" --isl "$input" --osl "$output" \
                --extra-inputs ignore_eos:true --random-seed "$4" --ui none --artifact-dir "$5" ;;
        guidellm)
            printf '%s\n' "${GUIDELLM:-guidellm}" run --backend "kind=openai_http,target=$url,model=$model,request_format=/v1/completions" \
                --profile "kind=concurrent,streams=$2" --constraint "kind=max_requests,count=$3" --seed "kind=static,value=$4" \
                --tokenizer "kind=huggingface_auto,model=$tokenizer" --data "kind=synthetic_text,prompt_tokens=$input,output_tokens=$output" \
                --output "kind=json,path=$5/benchmarks.json" --disable-progress ;;
        *) echo "unknown client $1" >&2; exit 2 ;;
    esac
}

# measure ROUND NAME LEVEL STREAMS REQUESTS
measure() {
    into=$directory/$1/$2-$3
    [ ! -e "$into/run.json" ] || return 0
    seed=$((seed + 1))
    lines=$(client "$2" "$4" "$5" "$seed" "$into")
    command -v "$(echo "$lines" | head -n 1)" > /dev/null || { echo "$2 is not installed" >&2; return 0; }
    [ -z "${CORES:-}" ] || lines=$(printf '%s\n' taskset -c "$CORES" "$lines")
    mkdir -p "$into"
    echo "round $1: $2, level $3" >&2
    (IFS='
'; set -f; exec python3 "$here/clients.py" run "$url" "$into" "${LIMIT:-600}" $lines)
}

seed=$(date +%s)
for round in $(seq "${ROUNDS:-1}"); do
    for streams in start ${STREAMS:-1 10 100 300 1000}; do
        for name in ${CLIENTS:-tacho vllm vllm-rs aiperf guidellm}; do
            case $streams in
                # One request: what starting costs.
                start) measure "$round" "$name" start 1 1 ;;
                *) requests=$((streams * ${REQUESTS:-4}))
                    measure "$round" "$name" "$streams" "$streams" $((requests < 20 ? 20 : requests)) ;;
            esac
        done
    done
done
exec python3 "$here/clients.py" table "$directory"
