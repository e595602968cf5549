#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
#     interactive.sh CONFIG DIR [OPTION ...]
#
# Trains on two nodes with four ranks each, in the terminal. Ctrl-C stops the run with a checkpoint; the same command
# goes on from it.
set -euo pipefail
HEDDLE_SECRET=$(head -c 32 /dev/urandom | base64)
export HEDDLE_SECRET
exec srun --nodes=2 --ntasks-per-node=4 --cpus-per-task=2 --kill-on-bad-exit=1 \
    runner run "$1" --dir "$2" --resume "${@:3}"
