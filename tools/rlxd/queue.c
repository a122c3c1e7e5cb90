// SPDX-License-Identifier: MIT
/* Rows wait in a line per client; a batch takes one of each in turn. */
#include "base/alloc.h"
#include "tools/rlxd/queue.h"

enum { LOOK_AHEAD = 64 };	/* rows of one line looked at for one that fits */

static struct flow *flow_of(struct model *m, struct client *c)
{
	struct flow *f = m->flow;

	if (f)
		do
			if (f->client == c)
				return f;
		while ((f = f->next) != m->flow);
	f = m->spare;
	if (f)
		m->spare = f->next;
	else
		f = rlx_malloc(sizeof(*f));
	if (!f)
		return NULL;
	*f = (struct flow){ .client = c };
	f->tail = &f->head;
	if (m->flow) {
		/* Last in turn: before the one that is next. */
		f->next = m->flow;
		f->prev = m->flow->prev;
		f->prev->next = f->next->prev = f;
	} else {
		m->flow = f->next = f->prev = f;
	}
	return f;
}

static void flow_end(struct model *m, struct flow *f)
{
	if (m->flow == f)
		m->flow = f->next == f ? NULL : f->next;
	f->next->prev = f->prev;
	f->prev->next = f->next;
	f->next = m->spare;
	m->spare = f;
}

bool queue_put(struct model *m, struct client *c, struct row *rows, unsigned int n)
{
	struct flow *f = flow_of(m, c);
	unsigned int i;

	if (!f)
		return false;
	for (i = 0; i < n; i++) {
		rows[i].next = NULL;
		*f->tail = &rows[i];
		f->tail = &rows[i].next;
	}
	m->n_rows += n;
	return true;
}

static struct row *unlink_row(struct model *m, struct flow *f, struct row **at)
{
	struct row *row = *at;

	*at = row->next;
	if (!row->next)
		f->tail = at;
	m->n_rows--;
	return row;
}

static bool is_wanted(const struct row *row, int64_t now)
{
	return row->job->deadline > now && !row->job->unwanted(row->job);
}

/* The first row of @f that fits behind @first (NULL: any), unlinked; or NULL. */
static struct row *flow_take(struct model *m, struct flow *f, const struct row *first,
			     int64_t now, struct row **dropped)
{
	struct row **at = &f->head, *row;
	unsigned int n = 0;

	while ((row = *at) && n++ < LOOK_AHEAD) {
		if (!is_wanted(row, now)) {
			row = unlink_row(m, f, at);
			row->next = *dropped;
			*dropped = row;
			n--;
		} else if (!first || (!row->place && m->kind->fits(m, first, row))) {
			return unlink_row(m, f, at);
		} else {
			at = &row->next;
		}
	}
	return NULL;
}

static unsigned int flow_count(const struct model *m)
{
	const struct flow *f = m->flow;
	unsigned int n = 0;

	if (f)
		do
			n++;
		while ((f = f->next) != m->flow);
	return n;
}

unsigned int queue_take(struct model *m, int64_t now, struct row **batch,
			unsigned int max, struct row **out_dropped)
{
	unsigned int n = 0, i, count;
	struct flow *f, *next;
	struct row *row;
	bool some = true;

	*out_dropped = NULL;
	/* Round after round, until one finds nothing that fits. */
	while (some && n < max && m->flow) {
		some = false;
		f = m->flow;
		for (i = 0, count = flow_count(m); i < count && n < max; i++, f = next) {
			next = f->next;
			row = flow_take(m, f, n ? batch[0] : NULL, now, out_dropped);
			if (row) {
				batch[n++] = row;
				some = true;
				if (batch[0]->place)
					max = 1;
			}
			/* Whoever gave the first row is last in turn next time. */
			if (n == 1 && row)
				m->flow = next;
			if (!f->head)
				flow_end(m, f);
		}
	}
	return n;
}

int64_t queue_oldest(const struct model *m)
{
	const struct flow *f = m->flow;
	int64_t oldest = INT64_MAX;

	if (!f)
		return oldest;
	do
		if (f->head->queued < oldest)
			oldest = f->head->queued;
	while ((f = f->next) != m->flow);
	return oldest;
}

void queue_fini(struct model *m)
{
	struct flow *f;

	while ((f = m->spare)) {
		m->spare = f->next;
		rlx_free(f);
	}
}
