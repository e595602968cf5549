#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=heddle
#SBATCH --nodes=2 --ntasks-per-node=4 --cpus-per-task=2
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120 --requeue --open-mode=append
#
#     export HEDDLE_SECRET=$(head -c 32 /dev/urandom | base64)
#     sbatch job.sh CONFIG DIR [OPTION ...]
#
# Two minutes before the time limit, and at a preemption, the ranks write a checkpoint and end with exit code 75.
# The job then waits for its next turn and goes on from there.
set -euo pipefail
code=0
srun --kill-on-bad-exit=1 runner run "$1" --dir "$2" --resume "${@:3}" || code=$?
[[ $code -ne 75 ]] || scontrol requeue "$SLURM_JOB_ID"
exit $code
