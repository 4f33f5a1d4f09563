#!/bin/bash
# Ranks of Open MPI or MPICH as one run: serve.sh RANKS http://server:8000 MODEL [FIRST_HOST:PORT]
# On one machine nothing more is needed. On several, name where rank 0 listens, and set TACHO_RENDEZVOUS_TOKEN; Open MPI
# hands it to other machines with -x. Outside a trusted network replace --rendezvous-plaintext by a certificate.
# To end a run early, send SIGINT to any rank rather than to mpirun: Open MPI kills ranks a second after SIGTERM.

set -euo pipefail
ranks=$1 url=$2 model=$3 meet=${4:-}
mpirun -n "$ranks" tacho serve --base-url "$url" --model "$model" --num-prompts 4000 --request-rate 200 \
    ${meet:+--rendezvous "$meet" --rendezvous-plaintext} --save-result
