/* SPDX-License-Identifier: MIT */
/*
 * Data sets of training benchmarks: written once, read by a loader into each step's batch.
 * rlx/data.h has names that the inside of the library has, too; who uses this needs neither.
 */
#ifndef TRAIN_DISK_H
#define TRAIN_DISK_H

#include "rlx/graph.h"
#include "rlx/run.h"

struct rlx_loader;

/* A text of bytes: rows of it, i32[batch, context], and what follows each byte, as @out. */
struct rlx_loader *train_disk_text(struct rlx_graph *g, int64_t batch, int64_t context,
				   rlx_value out[2]);

/* Images, f32[batch, 3, size, size], about 0 and as far as 1 from it, and classes, i32[batch]. */
struct rlx_loader *train_disk_images(struct rlx_graph *g, int64_t batch, int64_t size,
				     int64_t classes, rlx_value out[2]);

/* Bind the next batch; a failure ends the process. */
void train_disk_feed(struct rlx_loader *ld, struct rlx_session *s);

/* Have the one after it brought beside the run under way; a failure ends the process. */
void train_disk_prefetch(struct rlx_loader *ld, struct rlx_session *s);

/* How it is read, and how often that had to be waited for; the bytes that CPUs copied. */
uint64_t train_disk_print(const struct rlx_loader *ld);

void train_disk_close(struct rlx_loader *ld);

#endif
