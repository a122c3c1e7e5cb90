/* SPDX-License-Identifier: MIT */
/*
 * Nodes of memory: threads and memory of a replica are of one of them. Replicas and
 * loops take turns on the nodes that have processors for us; where there is but one,
 * as on most machines, nothing here does anything.
 */
#ifndef RLXD_NODE_H
#define RLXD_NODE_H

#include <stdint.h>

enum { NODE_ANY = -1, NODES_MAX = 64 };

/* Look at @dir, "/sys/devices/system/node", before there are other threads. */
void node_setup(const char *dir);
/* How many there are for us, at least 1. Below, a node is a number smaller than that. */
int node_count(void);
/* The kernel's numbers of all of them, as a mask; 0 where there is but one. */
uint64_t node_mask(void);
/*
 * Run the calling thread, and threads it makes from now on, on that node; what they
 * touch first lies there. NODE_ANY: where it ran at the start.
 */
void node_enter(int node);
/* Which node that is; 0 where there is but one. */
int node_here(void);

#endif
