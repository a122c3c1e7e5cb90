// SPDX-License-Identifier: MIT
/*
 * Launches that need nothing of each other go side by side: in which stream each does (a
 * stream of its own while a part is captured), and after which of other streams.
 */
#include <string.h>

#include "backends/gpu/streams.h"
#include "base/alloc.h"

/* More calls than that take long to look through. */
enum { MOST_CALLS = 1024 };

/* What of a part's time must be won at least. */
static const double least_gain = 0.05;

/* ---- what calls read and write ---- */

/*
 * What value @v is part of, by number: values of the workspace, and outputs with the inputs that
 * they replace. 0: nothing writes there.
 */
static uint32_t space_of(const struct gpu_code *c, uint32_t v)
{
	const struct rlx_plan *p = c->base.plan;
	uint32_t root = p->val[v].root, out = c->first_io[RLX_IO_OUTPUT], donated;
	const struct rlx_place *at = &p->val[root].place;

	switch (at->kind) {
	case RLX_PLACE_WORK:
		return root;
	case RLX_PLACE_OUTPUT:
		return p->n_val + at->index;
	case RLX_PLACE_INPUT:
		donated = c->io[at->index].donated;
		return donated ? p->n_val + donated - 1 - out : 0;
	default:
		return 0;
	}
}

/* Must call @i come after call @j? What brings the inputs has no step. */
static bool needs(const struct gpu_streams *n, uint32_t i, uint32_t j)
{
	const struct rlx_call *x = &gpu_calls(n->c)[i].base, *y = &gpu_calls(n->c)[j].base;
	const struct rlx_ref *r = n->c->calls.ref;
	uint32_t a, b, space;

	if (x->step == GPU_NO_STEP || y->step == GPU_NO_STEP)
		return true;
	for (a = x->ref; a < x->ref + x->n_ref; a++) {
		space = n->space[r[a].val];
		for (b = y->ref; space && b < y->ref + y->n_ref; b++)
			if (n->space[r[b].val] == space &&
			    (r[a].access | r[b].access) & RLX_WRITE)
				return true;
	}
	return false;
}

/* Of each stream the last call from @first on that @i must come after, plus 1. */
static void find_needs(const struct gpu_streams *n, uint32_t first, uint32_t i,
		       uint32_t need[RLX_STREAMS])
{
	const struct gpu_call *call = gpu_calls(n->c);
	uint32_t j;

	memset(need, 0, RLX_STREAMS * sizeof(*need));
	for (j = i; j-- > first;)
		if (!need[call[j].on_stream] && needs(n, i, j))
			need[call[j].on_stream] = j + 1;
}

/* ---- what they take ---- */

static void estimate(struct gpu_streams *n, uint32_t i)
{
	const struct gpu_call *call = &gpu_calls(n->c)[i];

	n->time[i].us = gpu_call_ns(n->c, call) * 1e-3;
	n->time[i].share = gpu_launch_share(&call->launch);
}

/* ---- which stream ---- */

struct turn {
	uint32_t	first;
	double		free[RLX_STREAMS];	/* when the stream's last call has ended */
	uint32_t	last[RLX_STREAMS];	/* that call, plus 1 */
};

/* How much later a launch begins behind one of another stream, and what it could do ahead. */
static double event_us(const struct gpu_streams *n)
{
	return gpu_chip(gpu_device_of(&n->c->base))->event_ns * 1e-3;
}

/* From @from on there must be room for call @i beside what runs. */
static double find_room(const struct gpu_streams *n, uint32_t first, uint32_t i, double from)
{
	double used, next;
	uint32_t j;

	for (;; from = next) {
		used = n->time[i].share;
		next = 0;
		for (j = first; j < i; j++) {
			const struct gpu_time *t = &n->time[j];

			if (t->from > from || t->end <= from)
				continue;
			used += t->share;
			next = !next || t->end < next ? t->end : next;
		}
		if (used <= 1.1 || !next)
			return from;
	}
}

/* When could call @i begin in stream @m? */
static double begins(const struct gpu_streams *n, const struct turn *t, uint32_t i, uint32_t m,
		     const uint32_t need[RLX_STREAMS])
{
	double at = t->free[m], end;
	uint32_t q;

	if (m && !t->last[m])
		at = event_us(n);
	for (q = 0; q < RLX_STREAMS; q++) {
		if (!need[q])
			continue;
		end = n->time[need[q] - 1].end + (q == m ? 0 : event_us(n));
		at = end > at ? end : at;
	}
	return find_room(n, t->first, i, at);
}

static void take_turn(struct gpu_streams *n, struct turn *t, uint32_t i)
{
	struct gpu_call *call = &gpu_calls(n->c)[i];
	uint32_t need[RLX_STREAMS], m, best = 0, latest = 0;
	double at, from = 0;

	find_needs(n, t->first, i, need);
	for (m = 0; m < RLX_STREAMS; m++) /* goes on where what it needs was, if it can */
		if (need[m] > latest) {
			latest = need[m];
			best = m;
		}
	from = begins(n, t, i, best, need);
	for (m = 0; m < RLX_STREAMS; m++) {
		at = m == best ? from : begins(n, t, i, m, need);
		if (at < from - 1e-6) {
			from = at;
			best = m;
		}
		if (!t->last[m])		/* the others are as empty */
			break;
	}
	call->on_stream = (uint8_t)best;
	n->time[i].from = from;
	n->time[i].end = t->free[best] = from + n->time[i].us;
	t->last[best] = i + 1;
}

/* Lanes of the launches from @first to @end; false: one after the other is as good. */
static bool give_streams(struct gpu_streams *n, uint32_t first, uint32_t end)
{
	struct turn t = { .first = first };
	double alone = 0, last = 0;
	uint32_t i;

	for (i = first; i < end; i++) {
		estimate(n, i);
		alone += n->time[i].us;
		take_turn(n, &t, i);
		last = n->time[i].end > last ? n->time[i].end : last;
	}
	return t.last[1] && last + event_us(n) < alone * (1 - least_gain);
}

/* ---- what waits for what ---- */

static bool add_wait(struct gpu_code *c, uint32_t i, uint32_t j)
{
	if (!rlx_grow(&c->wait, &c->cap_wait, c->n_wait + 1, sizeof(*c->wait)))
		return false;
	if (!gpu_calls(c)[i].n_wait++)
		gpu_calls(c)[i].first_wait = c->n_wait;
	c->wait[c->n_wait++] = j;
	gpu_calls(c)[j].awaited = true;
	return true;
}

static void learn(uint32_t known[RLX_STREAMS], const uint32_t more[RLX_STREAMS])
{
	uint32_t q;

	for (q = 0; q < RLX_STREAMS; q++)
		known[q] = more[q] > known[q] ? more[q] : known[q];
}

/* Is the call @need[q] - 1 known to have ended by what @i needs of other streams? */
static bool implied(const struct gpu_streams *n, const uint32_t need[RLX_STREAMS], uint32_t q)
{
	uint32_t r;

	for (r = 0; r < RLX_STREAMS; r++)
		if (r != q && need[r] && n->order.ended[need[r] - 1][q] >= need[q])
			return true;
	return false;
}

static bool list_waits(struct gpu_streams *n, uint32_t first, uint32_t end)
{
	struct gpu_code *c = n->c;
	uint32_t known[RLX_STREAMS][RLX_STREAMS] = { { 0 } }, need[RLX_STREAMS], i, q, m;

	for (i = first; i < end; i++) {
		m = n->order.stream[i] = gpu_calls(c)[i].on_stream;
		find_needs(n, first, i, need);
		for (q = 0; q < RLX_STREAMS; q++)
			if (q != m && need[q] > known[m][q] && !implied(n, need, q) &&
			    !add_wait(c, i, need[q] - 1))
				return false;
		for (q = 0; q < RLX_STREAMS; q++)
			if (need[q])
				learn(known[m], n->order.ended[need[q] - 1]);
		known[m][m] = i + 1;
		memcpy(n->order.ended[i], known[m], sizeof(known[m]));
		c->n_stream = m + 1 > c->n_stream ? m + 1 : c->n_stream;
	}
	return true;
}

/* One stream: each call knows those ahead. */
static void stay(struct gpu_streams *n, uint32_t first, uint32_t end)
{
	uint32_t i;

	for (i = first; i < end; i++) {
		gpu_calls(n->c)[i].on_stream = 0;
		memset(n->order.ended[i], 0, sizeof(n->order.ended[i]));
		n->order.ended[i][0] = i + 1;
	}
}

void gpu_streams_drop(struct gpu_code *c)
{
	uint32_t i;

	c->n_stream = 1;
	c->n_wait = 0;
	for (i = 0; i < c->calls.n_call; i++) {
		gpu_calls(c)[i].on_stream = 0;
		gpu_calls(c)[i].n_wait = 0;
		gpu_calls(c)[i].awaited = false;
	}
}

bool gpu_streams_find(struct gpu_streams *n, struct gpu_code *c)
{
	uint32_t n_call = c->calls.n_call, i, end, v;

	*n = (struct gpu_streams){ .c = c };
	gpu_streams_drop(c);
	if (n_call < 3 || n_call > MOST_CALLS)
		return true;
	n->space = rlx_calloc(c->base.plan->n_val, sizeof(*n->space));
	n->order.section = rlx_calloc(n_call, sizeof(*n->order.section));
	n->order.stream = rlx_calloc(n_call, sizeof(*n->order.stream));
	n->time = rlx_calloc(n_call, sizeof(*n->time));
	n->order.ended = rlx_calloc(n_call, sizeof(*n->order.ended));
	if (!n->space || !n->order.section || !n->order.stream || !n->time || !n->order.ended)
		return false;
	for (v = 1; v < c->base.plan->n_val; v++)
		n->space[v] = space_of(c, v);
	for (i = 0; i < n_call; i = end) {
		end = i + 1;
		while (gpu_calls(c)[i].kind == GPU_KERNEL_CALL && end < n_call &&
		       gpu_calls(c)[end].kind == GPU_KERNEL_CALL && !gpu_calls(c)[end].joins)
			end++;
		for (uint32_t k = i; k < end; k++)
			n->order.section[k] = i;
		if (end - i > 2 && give_streams(n, i, end)) {
			if (!list_waits(n, i, end))
				return false;
		} else {
			stay(n, i, end);
		}
	}
	return true;
}

void gpu_streams_free(struct gpu_streams *n)
{
	rlx_free(n->space);
	rlx_free(n->order.section);
	rlx_free(n->order.stream);
	rlx_free(n->time);
	rlx_free(n->order.ended);
	*n = (struct gpu_streams){ .c = n->c };
}
