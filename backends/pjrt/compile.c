// SPDX-License-Identifier: MIT
/* From plan steps to modules and steps of the host's; their places; constants on the device. */
#include <string.h>

#include "backends/pjrt/pjrt.h"
#include "base/alloc.h"
#include "base/clock.h"

static enum rlx_status out_of_memory(struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "pjrt: out of memory compiling");
}

/* ---- which steps are said, which are the host's ---- */

static bool can_say(const struct rlx_plan *p, const struct rlx_plan_step *st,
		    struct rlx_error *why)
{
	const struct rlx_type *in[HLO_IN];
	struct rlx_infer q = { .def = st->def, .args = st->args, .in = in, .n_in = st->n_in,
			       .n_out = st->n_out };
	uint32_t k;

	if (!st->def)
		return true;
	for (k = 0; k < st->n_in && k < HLO_IN; k++)
		in[k] = st->in[k] ? &p->val[st->in[k]].type : NULL;
	for (k = 0; k < st->n_out && k < HLO_OUT; k++)
		q.out[k] = p->val[st->out[k]].type;
	return hlo_supports(&q, why);
}

/* Appends the host's step; nothing else is this backend's to do with it. */
static enum rlx_status host_fallback(struct rlx_lower *lo, enum rlx_call_kind kind)
{
	struct pjrt_code *c = (struct pjrt_code *)lo->code;
	uint64_t bytes;
	enum rlx_status st = rlx_host_scratch(lo->plan, lo->st, &bytes, lo->err);
	uint32_t i;

	(void)kind;
	if (st)
		return st;
	for (i = 0; i < lo->st->n_in; i++) {
		const struct rlx_place *in = &lo->plan->val[lo->st->in[i]].place;

		if (lo->st->in[i] && in->kind == RLX_PLACE_CONST)
			rlx_host_home(lo->code, in->index);
	}
	if (bytes > c->base.work_bytes)		/* until places are known */
		c->base.work_bytes = bytes;
	if (lo->st->n_in + lo->st->n_out > c->most_tensors)
		c->most_tensors = lo->st->n_in + lo->st->n_out;
	if (!rlx_grow(&c->segment, &c->cap_segment, c->n_segment + 1, sizeof(*c->segment)))
		return out_of_memory(lo->err);
	c->segment[c->n_segment++] = (struct pjrt_segment){
		.step = (uint32_t)(lo->st - lo->plan->step) };
	return RLX_OK;
}

static const struct rlx_lower_ops ops = { .host_fallback = host_fallback };

/* ---- modules ---- */

static enum rlx_status add_module(struct pjrt_code *c, uint32_t from, uint32_t to, bool once,
				  struct rlx_error *err)
{
	struct pjrt_module *m = rlx_calloc(1, sizeof(*m));
	const struct rlx_plan *p = c->base.plan;
	uint32_t s;

	if (!m || !rlx_grow(&c->segment, &c->cap_segment, c->n_segment + 1,
			    sizeof(*c->segment))) {
		rlx_free(m);
		return out_of_memory(err);
	}
	for (s = from; s < to; s++) {
		if (p->step[s].once != once)
			continue;
		if (!rlx_grow(&m->step, &m->cap_step, m->n_step + 1, sizeof(*m->step))) {
			rlx_free(m->step);
			rlx_free(m);
			return out_of_memory(err);
		}
		m->step[m->n_step++] = s;
	}
	if (!m->n_step) {
		rlx_free(m);
		return RLX_OK;
	}
	c->segment[c->n_segment++] = (struct pjrt_segment){ m->step[0], m };
	return pjrt_module_compile(c, m, err);
}

/* Steps [from, to) are said. What depends on params alone is apart, for runs leave it out. */
static enum rlx_status add_modules(struct pjrt_code *c, uint32_t from, uint32_t to,
				   struct rlx_error *err)
{
	enum rlx_status st = from < to ? add_module(c, from, to, true, err) : RLX_OK;

	c->base.native += to - from;
	return st || from == to ? st : add_module(c, from, to, false, err);
}

static enum rlx_status find_readers(struct pjrt_code *c, struct rlx_error *err)
{
	const struct rlx_plan *p = c->base.plan;
	uint32_t s, k;

	for (k = 0; k < 2; k++)
		c->reader[k] = rlx_calloc(p->n_val, sizeof(*c->reader[k]));
	if (!c->reader[0] || !c->reader[1])
		return out_of_memory(err);
	for (s = 0; s < p->n_step; s++)
		for (k = 0; k < p->step[s].n_in; k++)
			if (p->step[s].in[k])
				c->reader[p->step[s].once][p->val[p->step[s].in[k]].root] = s + 1;
	return RLX_OK;
}

static void drop_readers(struct pjrt_code *c)
{
	rlx_free(c->reader[0]);
	rlx_free(c->reader[1]);
	c->reader[0] = c->reader[1] = NULL;
}

static enum rlx_status add_segments(struct pjrt_code *c, struct rlx_lower *lo, uint32_t flags,
				    struct rlx_error *err)
{
	const struct rlx_plan *p = c->base.plan;
	enum rlx_status st = RLX_OK;
	uint32_t s, from = 0;

	for (s = 0; s < p->n_step && !st; s++) {
		struct rlx_error why = { 0 };

		if (can_say(p, &p->step[s], &why))
			continue;
		st = add_modules(c, from, s, err);
		lo->st = &p->step[s];
		lo->args = lo->st->args;
		if (!st)
			st = rlx_lower_to_host(lo, flags, &why);
		from = s + 1;
	}
	return st ? st : add_modules(c, from, s, err);
}

/* ---- places ---- */

static bool use_all(struct rlx_uses *u, uint32_t at, const uint32_t *v, uint32_t n)
{
	uint32_t i;
	bool ok = true;

	for (i = 0; i < n && ok; i++)
		ok = !v[i] || rlx_uses_add(u, at, v[i]);
	return ok;
}

static enum rlx_status place(struct pjrt_code *c, struct rlx_error *err)
{
	struct rlx_plan *p = c->base.plan;
	struct rlx_uses u = { 0 };
	enum rlx_status st = RLX_OK;
	bool ok = true;
	uint32_t i;

	for (i = 0; i < c->n_segment && ok; i++) {
		const struct pjrt_module *m = c->segment[i].module;
		const struct rlx_plan_step *s = &p->step[c->segment[i].step];

		ok = use_all(&u, i, m ? m->in : s->in, m ? m->n_in : s->n_in) &&
		     use_all(&u, i, m ? m->out : s->out, m ? m->n_out : s->n_out);
	}
	st = ok ? rlx_plan_place(p, &u, NULL, err) : out_of_memory(err);
	rlx_free(u.use);
	return st;
}

/* ---- constants ---- */

static enum rlx_status import_constants(struct pjrt_code *c, const struct pjrt_module *m,
					struct rlx_error *err)
{
	const struct rlx_plan *p = c->base.plan;
	enum rlx_status st = RLX_OK;
	bool in_place;
	uint32_t i;

	for (i = 0; i < m->n_in && !st; i++) {
		const struct rlx_plan_val *v = &p->val[m->in[i]];
		const uint32_t k = v->place.index;

		if (v->place.kind != RLX_PLACE_CONST || c->weight[k])
			continue;
		st = pjrt_import(pjrt_plugin_of(&c->base), &v->type,
				 (const char *)rlx_host_home(&c->base, k) + v->place.offset,
				 &c->weight[k], &in_place, err);
		if (!st && !in_place)
			c->base.packed_bytes += rlx_plan_bytes(p, m->in[i]);
	}
	return st;
}

static enum rlx_status finish(struct pjrt_code *c, struct rlx_error *err)
{
	uint64_t host = c->base.work_bytes;
	enum rlx_status st = place(c, err);
	uint32_t i;

	for (i = 0; i < c->n_segment && !st; i++) {
		const struct pjrt_module *m = c->segment[i].module;
		uint32_t out = m ? m->n_out + 2 * m->n_check : 0;

		if (!m)
			continue;
		c->most_in = m->n_in > c->most_in ? m->n_in : c->most_in;
		c->most_out = out > c->most_out ? out : c->most_out;
		st = import_constants(c, m, err);
	}
	c->host_at = rlx_align64(c->base.plan->work_bytes);
	if (!st && __builtin_add_overflow(c->host_at, host, &c->base.work_bytes))
		st = rlx_fail(err, RLX_ENOMEM, "pjrt: over 2^64 bytes of workspace");
	return st;
}

enum rlx_status pjrt_compile(struct rlx_code *code, uint32_t flags, struct rlx_error *err)
{
	struct pjrt_code *c = (struct pjrt_code *)code;
	struct rlx_lower *lo = rlx_aligned(64, sizeof(*lo));
	enum rlx_status st = RLX_OK;
	uint64_t t0 = rlx_now();

	c->weight = rlx_calloc(code->plan->n_constant + 1, sizeof(*c->weight));
	c->most_tensors = 2;
	if (!lo || !c->weight) {
		st = out_of_memory(err);
	} else {
		memset(lo, 0, sizeof(*lo));
		lo->ops = &ops;
		lo->code = code;
		lo->plan = code->plan;
		lo->err = err;
		st = find_readers(c, err);
		if (!st)
			st = add_segments(c, lo, flags, err);
		drop_readers(c);
	}
	if (!st)
		st = finish(c, err);
	code->pack_ns = rlx_now() - t0;
	rlx_free(lo);
	if (st)
		pjrt_release(code);
	return st;
}

void pjrt_release(struct rlx_code *code)
{
	struct pjrt_code *c = (struct pjrt_code *)code;
	uint32_t i;

	for (i = 0; i < c->n_segment; i++)
		if (c->segment[i].module) {
			pjrt_module_free(c, c->segment[i].module);
			rlx_free(c->segment[i].module);
		}
	for (i = 0; c->weight && i < code->plan->n_constant; i++)
		pjrt_destroy(pjrt_plugin_of(code), PJRT_BUFFER_DESTROY, c->weight[i]);
	rlx_free(c->weight);
	rlx_free(c->segment);
	c->weight = NULL;
	c->segment = NULL;
	c->n_segment = 0;
}
