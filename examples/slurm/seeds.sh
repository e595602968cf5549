#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#SBATCH --job-name=heddle-seeds
#SBATCH --array=0-9
#SBATCH --ntasks=1 --cpus-per-task=2
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120 --requeue --open-mode=append
#
#     jobs=$(sbatch --parsable seeds.sh CONFIG FOLDER [OPTION ...])
#     sbatch --dependency=afterany:$jobs --wrap "runner compare FOLDER/seed=* --group-by exp_name --out FOLDER/compare.html"
#
# Trains with ten seeds, a job for each, in directories of their own. A job that was preempted, or ran out of time, goes
# on in its next turn. The second job compares them once all are over.
set -euo pipefail
code=0
srun runner run "$1" --seed "$SLURM_ARRAY_TASK_ID" --dir "$2/seed=$SLURM_ARRAY_TASK_ID" --resume "${@:3}" || code=$?
[[ $code -ne 75 ]] || scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
exit $code
