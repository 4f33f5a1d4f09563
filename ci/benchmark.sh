#!/usr/bin/env bash
# Measures a baseline and a candidate in one job and fails if the candidate is slower. action.yml and gitlab.yml run it.
#
#   BASE_URL, URL    base URLs of two running servers: the baseline and the candidate
#   BASE_CMD, CMD    or the commands that start them, in turn on the same GPU
#   ARGS             load and other flags of tacho ab-test, quoted as in a shell; without a baseline those of tacho serve
#   RULES            rules of --max-regression (mean_tpot_ms:3% output_throughput:3%)
#   BUDGET           seconds for the test (300)
#   RESULTS          directory of the results (tacho-result)
#
# Writes ab-test.json, report.html, verdict.txt and comment.md (for the pull request) into RESULTS.
# Exit code: that of tacho, 3 if a rule or a --fail-if condition fails or is inconclusive.
set -euo pipefail
results=${RESULTS:-tacho-result}
mkdir -p "$results"

# Splits text into words as a shell does; nothing in it is run. The words are in the array `words`.
split() {
  words=()
  if [ -z "$1" ]; then return; fi
  xargs printf '%s\0' <<< "$1" > "$results/words"
  while IFS= read -r -d '' word; do words+=("$word"); done < "$results/words"
  rm "$results/words"
}

split "${ARGS:-}"
load=("${words[@]}")
if [ -n "${BASE_URL:-}${BASE_CMD:-}" ]; then
  split "${RULES:-mean_tpot_ms:3% output_throughput:3%}"
  servers=("${BASE_URL:-}" "${URL:-}")
  if [ -n "${BASE_CMD:-}" ]; then servers=(--cmd-a "$BASE_CMD" --cmd-b "${CMD:-}"); fi
  command=(ab-test "${servers[@]}" --max-regression "${words[@]}" --budget "${BUDGET:-300}" "${load[@]}"
    --result-filename ab-test.json --html "$results/report.html")
else
  command=(serve "${load[@]}" --save-detailed --result-filename result.json --report "$results/report.html" --disable-tqdm)
fi
set +e
tacho "${command[@]}" --save-result --result-dir "$results" 2>&1 > "$results/verdict.txt" | tee "$results/errors.txt" >&2
code=${PIPESTATUS[0]}
set -e
cat "$results/verdict.txt"

verdict=failed
if [ "$code" -eq 0 ]; then verdict=passed; fi
if [ "$code" -eq 3 ] && grep -q '^REGRESSED' "$results/verdict.txt"; then verdict=regressed; fi
if [ "$code" -eq 3 ] && grep -q '^inconclusive' "$results/verdict.txt"; then verdict=inconclusive; fi
echo "verdict=$verdict" >> "${GITHUB_OUTPUT:-/dev/null}"

# The line that says it: an error, a failed condition, or the verdict.
headline=$(grep -hm1 -e '^error:' -e '^FAILED' "$results/errors.txt" "$results/verdict.txt" | head -n 1 || true)
if [ -z "$headline" ]; then headline=$(head -n 1 "$results/verdict.txt"); fi
link="report.html in $results"
if [ -n "${CI_JOB_URL:-}" ]; then link="[report.html]($CI_JOB_URL/artifacts/file/$results/report.html)"; fi
if [ -n "${GITHUB_RUN_ID:-}" ]; then
  link="report.html in the artifacts of [this run](${GITHUB_SERVER_URL:-}/${GITHUB_REPOSITORY:-}/actions/runs/$GITHUB_RUN_ID)"
fi
{
  printf '**tacho: %s**\n\n```text\n' "$verdict"
  cat "$results/verdict.txt"
  grep -e '^error:' -e '^caused by:' -e '^hint:' "$results/errors.txt" || true
  printf '```\n\n%s\n' "$link"
} > "$results/comment.md"
cat "$results/comment.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
if [ "$code" -ne 0 ] && [ -n "${GITHUB_ACTIONS:-}" ]; then echo "::error title=tacho::$headline"; fi
exit "$code"
