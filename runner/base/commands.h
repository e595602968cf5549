/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `runner`. Each is called once, by the main thread, with its options; logs its
 * errors; and returns the exit code of the program. */
#pragma once

struct hd_options;

/* The exit code is that of hd_status_get_exit_code where a status says it all. */
int hd_command_run(struct hd_options *options);
int hd_command_launch(struct hd_options *options);
int hd_command_graph(struct hd_options *options);
int hd_command_eval(struct hd_options *options);
int hd_command_watch(struct hd_options *options);
int hd_command_bench(struct hd_options *options);
int hd_command_record(struct hd_options *options);
int hd_command_report(struct hd_options *options);
int hd_command_trace(struct hd_options *options);
int hd_command_compare(struct hd_options *options);
int hd_command_keys(struct hd_options *options);
int hd_command_verbs(struct hd_options *options);
int hd_command_doctor(struct hd_options *options);
int hd_command_check_env(struct hd_options *options);
int hd_command_calibrate(struct hd_options *options);
int hd_command_simulate(struct hd_options *options);
int hd_command_completion(struct hd_options *options);
