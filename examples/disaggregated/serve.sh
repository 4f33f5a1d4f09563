#!/usr/bin/env bash
# Prefill, decode and the proxy between them as one server: started together, ended together.
#
#   examples/disaggregated/serve.sh --port 9000                  # real engines, one GPU each
#   ENGINE=sim examples/disaggregated/serve.sh --port 9000       # the simulator in both roles
#
# As the server of a sweep (see README.md): --serve-cmd 'examples/disaggregated/serve.sh --port 9000'.
# MODEL, PREFILL_PORT, DECODE_PORT and PROXY change what is started; CONNECTOR=lmcache hands KV over through LMCache. The simulated form is run by the tests of the project;
# the one with vLLM has not been run.
set -euo pipefail
port=8000
while [ $# -gt 0 ]; do
    case "$1" in
    --port) port=$2; shift 2 ;;
    *) echo "serve.sh: unknown argument $1: only --port PORT is taken" >&2; exit 2 ;;
    esac
done
engine=${ENGINE:-vllm} model=${MODEL:-Qwen/Qwen3-8B}
prefill=${PREFILL_PORT:-8100} decode=${DECODE_PORT:-8200}

# What is started here ends with this script.
trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT
trap 'exit 143' TERM INT HUP

start() { # role, port, device
    local config="{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"$1\"}" more=()
    if [ "${CONNECTOR:-nixl}" = lmcache ]; then
        config="{\"kv_connector\": \"LMCacheConnectorV1\", \"kv_role\": \"$1\", \"kv_connector_extra_config\":
            {\"discard_partial_chunks\": false, \"lmcache_rpc_port\": \"$1\"}}"
        more=(--enforce-eager)
    fi
    case "$engine" in
    sim) tacho sim --port "$2" --model "$model" --tokenizer gpt2 --kv-transfer-config "$config" \
        --kv-transfer-delay "${TRANSFER_DELAY:-0.002}" --kv-transfer-rate "${TRANSFER_RATE:-190000}" & ;;
    # The same hashes in both, or nothing is found.
    vllm) CUDA_VISIBLE_DEVICES=$3 VLLM_NIXL_SIDE_CHANNEL_PORT=$(($2 + 1000)) PYTHONHASHSEED=0 \
        LMCACHE_USE_EXPERIMENTAL=True UCX_TLS=cuda_ipc,cuda_copy,tcp VLLM_WORKER_MULTIPROC_METHOD=spawn \
        vllm serve "$model" --port "$2" --kv-transfer-config "$config" "${more[@]}" & ;;
    *) echo "serve.sh: ENGINE is vllm or sim, not $engine" >&2; exit 2 ;;
    esac
}

ready() { # port, process
    until (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; do
        kill -0 "$2" 2> /dev/null || { echo "serve.sh: the engine of port $1 has ended" >&2; exit 1; }
        sleep 0.2
    done
}

start kv_producer "$prefill" 0
first=$!
start kv_consumer "$decode" 1
second=$!
ready "$prefill" "$first"
ready "$decode" "$second"

# tacho's proxy asks the first for one token with kv_transfer_params, then streams the answer of the second. Another one
# takes its place with PROXY='COMMAND ...'; it gets the three addresses behind its words.
if [ -n "${PROXY:-}" ]; then
    read -r -a words <<< "$PROXY"
    "${words[@]}" --port "$port" --prefill "http://127.0.0.1:$prefill" --decode "http://127.0.0.1:$decode" &
else
    tacho sim --port "$port" --prefill-url "http://127.0.0.1:$prefill" --decode-url "http://127.0.0.1:$decode" &
fi
wait -n
echo "serve.sh: one of the three has ended" >&2
exit 1
