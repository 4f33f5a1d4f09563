#!/usr/bin/env bash
# Measures a baseline and a candidate in one job, alternating, and gates the candidate. action.yml and gitlab.yml run it.
#
#   ARGS, BASE_ARGS    arguments of tacho serve for the candidate and for the baseline, quoted as in a shell;
#                      without BASE_ARGS only the candidate is measured
#   SETUP, BASE_SETUP  shell commands that put the server of a side in place before each of its runs (optional)
#   RUNS               runs of each side (4)
#   RULES              rules of tacho gate (mean_tpot_ms:5%)
#   RESULTS            directory of the results (tacho-result)
#
# Exit code: 3 if a --fail-if condition or a rule fails or cannot be decided, that of tacho serve if a run fails.
set -euo pipefail
results=${RESULTS:-tacho-result}
worst=0

# Splits text into words as a shell does; nothing in it is run. The words are in the array `words`.
split() {
  words=()
  xargs printf '%s\0' <<< "$1" > "$results/words"
  while IFS= read -r -d '' word; do words+=("$word"); done < "$results/words"
  rm "$results/words"
}

# Shows a file in the log and, between fences, in the job summary.
show() {
  cat "$1"
  { echo '```text'; cat "$1"; echo '```'; } >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
}

# measure SIDE RUN SETUP ARGS. The runs of a pair have the same seed, and each pair another: no run finds its prompts cached.
measure() {
  local directory=$results/$1 code=0
  mkdir -p "$directory"
  if [ -n "$3" ]; then bash -c "$3"; fi
  split "$4"
  tacho serve --seed "$2" "${words[@]}" --save-result --save-detailed --result-dir "$directory" --result-filename "run$2.json" \
    --report "$results/$1-run$2.html" --disable-tqdm > "$results/console.txt" || code=$?
  sed -n '/Serving Benchmark Result/,$p' "$results/console.txt" > "$results/$1-run$2.txt"
  if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then cat "$results/console.txt"; exit "$code"; fi
  if [ "$code" -gt "$worst" ]; then worst=$code; fi
}

for run in $(seq "${RUNS:-4}"); do
  if [ -n "${BASE_ARGS:-}" ]; then measure base "$run" "${BASE_SETUP:-}" "$BASE_ARGS"; fi
  measure new "$run" "${SETUP:-}" "$ARGS"
done
show "$results/new-run$run.txt"
if [ -n "${BASE_ARGS:-}" ]; then
  tacho compare "$results/base" "$results/new" --html "$results/report.html" > "$results/compare.txt"
  show "$results/compare.txt"
  split "${RULES:-mean_tpot_ms:5%}"
  code=0
  tacho gate "$results/base" "$results/new" --max-regression "${words[@]}" > "$results/gate.txt" || code=$?
  show "$results/gate.txt"
  verdict=inconclusive
  if [ "$code" -eq 0 ]; then verdict=passed; elif grep -q '^REGRESSED' "$results/gate.txt"; then verdict=regressed; fi
  echo "verdict=$verdict" >> "${GITHUB_OUTPUT:-/dev/null}"
  if [ "$code" -gt "$worst" ]; then worst=$code; fi
fi
exit "$worst"
