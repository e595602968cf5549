# SPDX-License-Identifier: Apache-2.0
"""Results of runner bench that are made up."""

import json

COMMON = {"config": "configs/made_up.yaml", "sets": [], "call": 1, "machine": "a machine", "commit": "c0ffee", "date": "2026-01-01",
          "base_hash": "0", "config_hash": "0", "bits_hash": "0", "param_hash": "a" * 16, "fingerprint": "b" * 16, "lag": 0,
          "ranks": 2, "shards": 2, "load": {"load": [0, 0], "mhz": [None, None], "cpus": 2, "others": 0, "stolen": 0}}
RATES = {"case": "bench", "updates": 50, "warmup": 10, "evaluations": False, "measured": 50, "workers": 1, "gpus": 0,
         "env_steps_per_s": 640, "busy": 0.7, "exposed": 0.2, "idle": 0.1, "gpu_busy": 0,
         "verbs": {"loss_grad": 0.5, "adam": 0.15, "collect": 0.05}}


def write_results(path, runs):
    """A line for each run, with what it leaves out."""
    with open(path, "w", encoding="utf-8") as file:
        for run in runs:
            rates = {} if run.get("case") == "bench_goal" else RATES
            file.write(json.dumps({**COMMON, **rates, "strategy": run["candidate"], **run}) + "\n")
