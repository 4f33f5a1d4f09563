#!/usr/bin/env bash
# Is a long prefix found again, and where? Two prompts that share their first thousand sentences, one after the other: the first fills
# the cache, the second should use it. Then, if PORT2 names a second engine that shares the cache, the same from there.
#
#   PORT=8000 examples/lmcache/probe.sh
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
shared=$(printf 'Hello, how are you?%.0s' $(seq 1000))
for ending in 'Hello, my name is' 'Tell me a very long story'; do
    printf '{"prompt": "%s%s", "output_tokens": 10}\n' "$shared" "$ending"
done > "$folder/prompts.jsonl"

ask() { # port, file of the rows
    tacho serve --port "$1" --dataset-name custom --dataset-path "$folder/prompts.jsonl" --skip-chat-template \
        --disable-shuffle --num-prompts 2 --custom-output-len 10 --max-concurrency 1 --temperature 0 --top-p 0.95 \
        --save-requests "$folder/$2" --quiet > "$folder/report"
    python3 - "$folder/$2" "$1" << 'PYTHON'
import json, sys
first, second = (json.loads(line)["ttft_ms"] for line in open(sys.argv[1]))
print(f"port {sys.argv[2]}: first prompt {first:.1f} ms, second {second:.1f} ms to the first token, {first / second:.1f} times")
PYTHON
}

external() { # tokens that came from beyond the engine's own cache, so far
    curl --silent --max-time 30 "http://127.0.0.1:${PORT:-8000}/metrics" |
        awk '/^vllm:external_prefix_cache_hits_total/ { sum += $NF } END { printf "%d\n", sum }'
}

ask "${PORT:-8000}" first.jsonl
before=$(external)
# Without what the GPU holds: what is still found came from the host's memory. vLLM has the path with VLLM_SERVER_DEV_MODE=1.
if curl --silent --fail --max-time 30 --request POST "http://127.0.0.1:${PORT:-8000}/reset_prefix_cache?reset_external=false" > "$folder/reset"; then
    echo "after the engine's own cache was emptied:"
    ask "${PORT:-8000}" again.jsonl
    echo "tokens from beyond the engine's own cache: $(($(external) - before))"
fi
if [ -n "${PORT2:-}" ]; then ask "$PORT2" other.jsonl; fi
