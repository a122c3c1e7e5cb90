/* SPDX-License-Identifier: MIT */
/* The queue of a model: one line of rows for each client, served in turns. */
#ifndef RLXD_QUEUE_H
#define RLXD_QUEUE_H

#include "tools/rlxd/model.h"

struct flow {
	struct flow	*next, *prev;	/* ring */
	struct client	*client;
	struct row	*head, **tail;
};

/* All with m->lock held. */

/* False: out of memory, nothing was queued. */
bool queue_put(struct model *m, struct client *c, struct row *rows, unsigned int n);
/*
 * Up to @max rows that fit together into @batch; the client whose turn it is gives
 * the first. Rows nobody waits for, or that are late at @now, go to *@out_dropped.
 */
unsigned int queue_take(struct model *m, int64_t now, struct row **batch,
			unsigned int max, struct row **out_dropped);
/* When the row was queued that has waited longest of those whose turn is next. */
int64_t queue_oldest(const struct model *m);
void queue_fini(struct model *m);

#endif
