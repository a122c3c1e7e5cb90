/* SPDX-License-Identifier: MIT */
/*
 * The queue of a model: one line of rows for each connection. Clients take turns, and
 * so do the connections of a client: who shares a key or an address with somebody that
 * asks much waits for no more than a share of it.
 */
#ifndef RLXD_QUEUE_H
#define RLXD_QUEUE_H

#include "tools/rlxd/model.h"

/* All with m->lock held. */

/* May @j's rows wait too? An eighth more than max_queue is for those who have few waiting. */
bool queue_has_room(const struct model *m, const struct job *j);
/* False: out of memory, nothing was queued. */
bool queue_put(struct model *m, const struct job *j);
/*
 * Up to @max rows that fit together into @batch; the connection whose turn it is gives
 * the first. Rows nobody waits for, or that are late at @now, go to *@out_dropped.
 * @only_short: of connections that begin with a row that model_is_short().
 */
unsigned int queue_take(struct model *m, int64_t now, bool only_short, struct row **batch,
			unsigned int max, struct row **out_dropped);
/* The row whose turn it is, unless it is to be dropped; NULL: there is none. */
const struct row *queue_next(struct model *m);
/* Is there something to be taken @only_short? */
bool queue_has_short(struct model *m, int64_t now);
/* When the row was queued that has waited longest of those whose turn is next. */
int64_t queue_oldest(const struct model *m);
void queue_fini(struct model *m);

#endif
