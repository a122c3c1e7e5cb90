// SPDX-License-Identifier: MIT
/*
 * Which buffers of a session overlap: outputs with each other, with params, and with inputs, which
 * are then read from a copy. Looked at after each binding, of thousands: by place.
 */
#include "rt/session.h"

static struct rlx_span span_of(const struct rlx_slot *slot, unsigned int i)
{
	uintptr_t at = (uintptr_t)rlx_buf_ptr(slot->buf);

	return (struct rlx_span){ at, at + slot->bytes, i };
}

/* Sinks @at into the heap of @n, the highest begin on top. */
static void sink(struct rlx_span *e, unsigned int at, unsigned int n)
{
	struct rlx_span x = e[at];
	unsigned int k;

	for (; (k = 2 * at + 1) < n; at = k) {
		k += k + 1 < n && e[k + 1].begin > e[k].begin;
		if (e[k].begin <= x.begin)
			break;
		e[at] = e[k];
	}
	e[at] = x;
}

/* By their begins; qsort() may allocate. */
static void sort(struct rlx_span *e, unsigned int n)
{
	struct rlx_span x;
	unsigned int i;

	for (i = n / 2; i-- > 0;)
		sink(e, i, n);
	for (i = n; i-- > 1;) {
		x = e[0];
		e[0] = e[i];
		e[i] = x;
		sink(e, 0, i);
	}
}

static enum rlx_status overlap(struct rlx_session *s, enum rlx_io io, unsigned int i,
			       unsigned int o)
{
	return rlx_fail(&s->err, RLX_EINVAL, "%s '%s' and %s '%s' overlap", rlx_slot_kind(s, io, i),
			s->slot[io][i].name, rlx_slot_kind(s, RLX_IO_OUTPUT, o),
			s->slot[RLX_IO_OUTPUT][o].name);
}

/* The first of the outputs, which are apart, that ends behind @begin; their number if none does. */
static unsigned int first_behind(const struct rlx_session *s, uintptr_t begin)
{
	unsigned int lo = 0, hi = s->n_placed, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (s->placed[mid].end > begin)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* An output that @slot overlaps, from @*at on, which is then behind it; NULL: no more. */
static const struct rlx_span *next_over(const struct rlx_session *s, const struct rlx_slot *slot,
					unsigned int *at)
{
	struct rlx_span x = span_of(slot, 0);

	if (!x.begin || x.begin == x.end || *at >= s->n_placed ||
	    s->placed[*at].begin >= x.end)
		return NULL;
	return &s->placed[(*at)++];
}

/*
 * No two outputs in one place, and none over a param: that is read in place and again
 * in the next run.
 */
enum rlx_status rlx_outputs_disjoint(struct rlx_session *s)
{
	unsigned int n = rlx_slot_count(s, RLX_IO_OUTPUT), i, at;
	const struct rlx_span *x;

	s->n_placed = 0;
	for (i = 0; i < n; i++) {
		struct rlx_span o = span_of(&s->slot[RLX_IO_OUTPUT][i], i);

		if (o.begin && o.end > o.begin)
			s->placed[s->n_placed++] = o;
	}
	sort(s->placed, s->n_placed);
	for (i = 1; i < s->n_placed; i++) {
		x = &s->placed[i - 1];
		if (x[1].begin < x[0].end)
			return x[0].i < x[1].i ? overlap(s, RLX_IO_OUTPUT, x[0].i, x[1].i) :
						 overlap(s, RLX_IO_OUTPUT, x[1].i, x[0].i);
	}
	n = rlx_slot_count(s, RLX_IO_PARAM);
	for (i = 0; i < n; i++) {
		const struct rlx_slot *slot = &s->slot[RLX_IO_PARAM][i];

		at = first_behind(s, span_of(slot, i).begin);
		x = next_over(s, slot, &at);
		if (x)
			return overlap(s, RLX_IO_PARAM, i, x->i);
	}
	return RLX_OK;
}

enum rlx_status rlx_input_over_outputs(struct rlx_session *s, unsigned int i, bool *out_hit)
{
	const struct rlx_slot *in = &s->slot[RLX_IO_INPUT][i], *out;
	unsigned int at = first_behind(s, span_of(in, i).begin);
	const struct rlx_span *x;

	*out_hit = false;
	while ((x = next_over(s, in, &at))) {
		out = &s->slot[RLX_IO_OUTPUT][x->i];
		if (in->state && in->other == (int)x->i)
			continue;
		if (in->state)
			return overlap(s, RLX_IO_INPUT, i, x->i);
		if (rlx_buf_ptr(in->buf) != rlx_buf_ptr(out->buf) || in->bytes != out->bytes)
			return rlx_fail(&s->err, RLX_EINVAL, "input '%s' and output '%s' overlap in "
					"part; bind the same slice or different ones", in->name,
					out->name);
		*out_hit = true;
	}
	return RLX_OK;
}
