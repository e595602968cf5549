#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
#     run.sh CONFIG DIR [OPTION ...]
#
# Trains on the hosts of the file `hosts` beside this one, a rank for each slot (another file: HOSTS=FILE). The ranks
# of a host share memory, and MPI joins the hosts. The secret of the run goes by MPI.
set -euo pipefail
config=$1 directory=$2
shift 2
exec mpirun --hostfile "${HOSTS:-$(dirname "$0")/hosts}" --map-by slot --bind-to none \
    runner run "$config" --dir "$directory" --resume "$@"
