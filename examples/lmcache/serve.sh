#!/usr/bin/env bash
# vLLM with LMCache as one server: `offload` keeps KV that leaves the GPU in the host's memory, `offload-server` in a process
# of its own, `sharing` lets two engines use one cache server. Prefill and decode apart with LMCache: ../disaggregated,
# CONNECTOR=lmcache.
#
#   examples/lmcache/serve.sh offload --port 8000
#   examples/lmcache/serve.sh sharing --port 8000        # the second engine is on the next port
#   ENGINE=sim examples/lmcache/serve.sh offload         # a simulator with its prefix cache, to try the probe
#
# The simulated form is run by the tests of the project; those with vLLM and LMCache have not been run.
set -euo pipefail
kind=${1:-offload}
shift || true
port=8000
[ "${1:-}" != --port ] || port=$2
engine=${ENGINE:-vllm} model=${MODEL:-Qwen/Qwen3-8B}

trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT
trap 'exit 143' TERM INT HUP

# The same hashes in every process, or nothing is found again.
export PYTHONHASHSEED=0 LMCACHE_CHUNK_SIZE=${LMCACHE_CHUNK_SIZE:-256} LMCACHE_USE_EXPERIMENTAL=True
config='{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}'

case "$engine $kind" in
"sim offload") tacho sim --port "$port" --model "$model" --tokenizer gpt2 & ;;
"vllm offload")
    export LMCACHE_LOCAL_CPU=True LMCACHE_MAX_LOCAL_CPU_SIZE=${LMCACHE_MAX_LOCAL_CPU_SIZE:-5.0}
    vllm serve "$model" --port "$port" --kv-transfer-config "$config" & ;;
"vllm offload-server")
    size=${LMCACHE_MAX_LOCAL_CPU_SIZE:-5}
    lmcache server --host localhost --port "${CACHE_PORT:-5555}" --l1-size-gb "$size" &
    vllm serve "$model" --port "$port" --kv-offloading-backend lmcache --kv-offloading-size "$size" \
        --disable-hybrid-kv-cache-manager & ;;
"vllm sharing")
    export LMCACHE_LOCAL_CPU=False LMCACHE_REMOTE_SERDE=naive LMCACHE_REMOTE_URL=lm://127.0.0.1:${CACHE_PORT:-8300}
    lmcache_server 127.0.0.1 "${CACHE_PORT:-8300}" &
    CUDA_VISIBLE_DEVICES=0 vllm serve "$model" --port "$port" --kv-transfer-config "$config" &
    CUDA_VISIBLE_DEVICES=1 vllm serve "$model" --port $((port + 1)) --kv-transfer-config "$config" & ;;
"sim offload-server" | "sim sharing") echo "serve.sh: the simulator has no cache beside its own" >&2; exit 2 ;;
*) echo "serve.sh: offload, offload-server or sharing with ENGINE vllm or sim, not $engine $kind" >&2; exit 2 ;;
esac
wait -n
