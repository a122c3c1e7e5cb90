/* SPDX-License-Identifier: MIT */
/* What a replica's task does. */
#ifndef RLXD_REPLICA_H
#define RLXD_REPLICA_H

struct task;

/* Run rows of the model of the replica that @t is in until none waits. */
void replica_run_on_worker(struct task *t);

#endif
