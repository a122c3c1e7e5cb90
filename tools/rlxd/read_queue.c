// SPDX-License-Identifier: MIT
/* Who is read next: weighted fair queueing, among clients and among connections of one. */
#include <stddef.h>

#include "tools/rlxd/read_queue.h"
#include "tools/rlxd/worker_pool.h"

/* Reading so much takes some 50 ms. */
static const uint64_t long_bytes = 2 << 20;

/* Pairing heaps by tag; of two the first goes before those that are as far. */
static struct task *meld(struct task *a, struct task *b)
{
	struct task *above = !b || (a && a->tag <= b->tag) ? a : b, *below = above == a ? b : a;

	if (above && below) {
		below->next = above->child;
		above->child = below;
	}
	return above;
}

static struct task *without_first(struct task *heap)
{
	struct task *pairs = NULL, *out = NULL, *a, *b, *next;

	for (a = heap->child; a; a = next) {
		b = a->next;
		next = b ? b->next : NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	for (a = pairs; a; a = next) {
		next = a->next;
		out = meld(out, a);
	}
	return out;
}

void read_queue_put_back(struct read_queue *q, struct task *t)
{
	struct read_share *c = t->share;

	t->next = t->child = NULL;
	if (!c->n++) {
		c->next = q->shares;
		q->shares = c;
		if (c->tag < q->now)
			c->tag = q->now;
	}
	c->heap[t->size] = meld(c->heap[t->size], t);
	q->n[t->size]++;
}

void read_queue_put(struct read_queue *q, struct task *t, uint64_t bytes)
{
	t->size = bytes > long_bytes ? READ_LONG : READ_SHORT;
	t->cost = bytes;
	t->tag = t->share->now + bytes;
	read_queue_put_back(q, t);
}

bool read_queue_has(const struct read_queue *q, bool only_short)
{
	return q->n[READ_SHORT] || (!only_short && q->n[READ_LONG]);
}

/* Of @c, the first; NULL: none may be. */
static struct task *first_of(const struct read_share *c, bool only_short)
{
	struct task *s = c->heap[READ_SHORT], *l = only_short ? NULL : c->heap[READ_LONG];

	return !l || (s && s->tag <= l->tag) ? s : l;
}

/*
 * @t is read, of @n clients that may be. The others stand still beside them: who reads what
 * they may not has no less for it, nor have they more when they may.
 */
static void charge(struct read_queue *q, struct task *t, unsigned int n, bool only_short)
{
	uint64_t each = t->cost / n;
	struct read_share *c;

	for (c = q->shares; c; c = c->next)
		if (!first_of(c, only_short))
			c->tag += each;
	c = t->share;
	c->tag += t->cost;
	c->now += t->cost / c->n;
	q->now += each;
	/* Once, however often it is put back. */
	t->cost = 0;
}

struct task *read_queue_take(struct read_queue *q, bool only_short)
{
	struct task *first = NULL, *t;
	struct read_share **p, **at = NULL, *c;
	unsigned int n = 0;

	for (p = &q->shares; (c = *p); p = &c->next) {
		t = first_of(c, only_short);
		n += t != NULL;
		if (!t || (first && c->tag + t->cost >= first->share->tag + first->cost))
			continue;
		first = t;
		at = p;
	}
	c = first->share;
	charge(q, first, n, only_short);
	c->heap[first->size] = without_first(first);
	q->n[first->size]--;
	if (!--c->n)
		*at = c->next;
	return first;
}
