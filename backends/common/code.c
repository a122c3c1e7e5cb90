// SPDX-License-Identifier: MIT
/* The list of calls, and the image and relocations that are made of it. */
#include <string.h>

#include "backends/common/code.h"
#include "base/alloc.h"

static bool reserve_args(struct rlx_calls *c, uint64_t need)
{
	uint64_t cap = c->cap_args ? c->cap_args : 16384;
	unsigned char *p;

	while (cap < need)
		cap *= 2;
	p = cap == c->cap_args ? c->args : rlx_realloc(c->args, cap);
	if (!p)
		return false;
	c->args = p;
	c->cap_args = cap;
	return true;
}

static bool put(struct rlx_calls *c, uint64_t at, const void *args, uint32_t n_args,
		const struct rlx_ref *ref, uint32_t n_ref)
{
	if (!reserve_args(c, at + n_args) ||
	    !rlx_grow(&c->ref, &c->cap_ref, c->n_ref + n_ref, sizeof(*c->ref)))
		return false;
	if (n_args)
		memcpy(c->args + at, args, n_args);
	if (at + n_args > c->n_args)
		c->n_args = at + n_args;
	if (n_ref)
		memcpy(c->ref + c->n_ref, ref, n_ref * sizeof(*ref));
	c->n_ref += n_ref;
	return true;
}

void *rlx_calls_add(struct rlx_calls *c, const void *args, uint32_t n_args,
		    const struct rlx_ref *ref, uint32_t n_ref)
{
	uint64_t at = rlx_align64(c->n_args);
	uint32_t first = c->n_ref;
	struct rlx_call *call;

	if (!rlx_grow(&c->call, &c->cap_call, c->n_call + 1, c->size) ||
	    !put(c, at, args, n_args, ref, n_ref))
		return NULL;
	call = rlx_call_at(c, c->n_call++);
	memset(call, 0, c->size);
	call->args = at;
	call->n_args = n_args;
	call->ref = first;
	call->n_ref = n_ref;
	return call;
}

/* What is taken back may lie behind the references of the last call: hers go to the end. */
static bool at_end(struct rlx_calls *c, struct rlx_call *last)
{
	if (last->ref + last->n_ref == c->n_ref)
		return true;
	if (!rlx_grow(&c->ref, &c->cap_ref, c->n_ref + last->n_ref, sizeof(*c->ref)))
		return false;
	memcpy(c->ref + c->n_ref, c->ref + last->ref, last->n_ref * sizeof(*c->ref));
	last->ref = c->n_ref;
	c->n_ref += last->n_ref;
	return true;
}

bool rlx_calls_extend(struct rlx_calls *c, uint64_t at, const void *args, uint32_t n_args,
		      const struct rlx_ref *ref, uint32_t n_ref)
{
	struct rlx_call *last = rlx_call_at(c, c->n_call - 1);
	uint32_t i;

	if (!at_end(c, last) || !put(c, last->args + at, args, n_args, ref, n_ref))
		return false;
	for (i = c->n_ref - n_ref; i < c->n_ref; i++)
		if (c->ref[i].at != RLX_NO_FIELD)
			c->ref[i].at += at;
	last->n_ref += n_ref;
	return true;
}

bool rlx_calls_use(struct rlx_calls *c, uint32_t val, enum rlx_access access)
{
	struct rlx_ref r = { .at = RLX_NO_FIELD, .val = val, .access = (uint8_t)access };

	return !val || rlx_calls_extend(c, 0, NULL, 0, &r, 1);
}

void rlx_calls_undo(struct rlx_calls *c, struct rlx_calls_mark m)
{
	c->n_call = m.n_call;
	c->n_ref = m.n_ref;
	c->n_args = m.n_args;
}

enum rlx_status rlx_calls_place(const struct rlx_calls *c, struct rlx_plan *p,
				const struct rlx_order *o, struct rlx_error *err)
{
	struct rlx_uses u = { 0 };
	enum rlx_status st;
	bool ok = true;
	uint32_t i, k;

	for (i = 0; i < c->n_call; i++) {
		const struct rlx_call *call = rlx_call_at(c, i);

		for (k = call->ref; k < call->ref + call->n_ref && ok; k++)
			if (c->ref[k].kind == RLX_REF_VALUE)
				ok = rlx_uses_add(&u, i, c->ref[k].val);
	}
	st = ok ? rlx_plan_place(p, &u, o, err) :
	     rlx_fail(err, RLX_ENOMEM, "compile: out of memory");
	rlx_free(u.use);
	return st;
}

/* ---- the image ---- */

static uint32_t slot_of(const struct rlx_plan *p, const struct rlx_ref *r,
			const struct rlx_place *at)
{
	if (r->kind == RLX_REF_STATUS)
		return rlx_slot_status(p);
	switch (at->kind) {
	case RLX_PLACE_INPUT:
		return rlx_slot_of(p, RLX_IO_INPUT, at->index);
	case RLX_PLACE_PARAM:
		return rlx_slot_of(p, RLX_IO_PARAM, at->index);
	case RLX_PLACE_OUTPUT:
		return rlx_slot_of(p, RLX_IO_OUTPUT, at->index);
	default:
		return rlx_slot_work(p);
	}
}

/* A relocation on its way to its place. */
struct placed {
	struct rlx_reloc	r;
	uint32_t		slot;
};

/* What references become: bytes of the image, or relocations. */
struct emission {
	const struct rlx_plan	*p;
	rlx_fixed_fn		*fixed;
	void			*ctx;
	unsigned char		*image;
	struct placed		*all, *end;
};

static void resolve(struct emission *e, const struct rlx_calls *c, const struct rlx_call *call)
{
	uint32_t i;

	for (i = call->ref; i < call->ref + call->n_ref; i++) {
		struct rlx_ref r = c->ref[i];
		const struct rlx_place *at = &e->p->val[r.val].place;
		uint64_t v;

		if (r.at == RLX_NO_FIELD)
			continue;
		if (r.kind == RLX_REF_VALUE)
			r.off += at->offset;
		r.at += call->args;
		if (e->fixed(e->ctx, &r, at, &v))
			memcpy(e->image + r.at, &v, sizeof(v));
		else
			*e->end++ = (struct placed){ { r.at, r.off }, slot_of(e->p, &r, at) };
	}
}

static void sort(struct rlx_calls *c, const struct placed *from, const struct placed *end,
		 uint32_t n_slot)
{
	const struct placed *r;
	uint32_t i;

	/* where the next one of slot s goes is slot_at[s + 1], which ends where s + 1 begins */
	for (r = from; r < end; r++)
		c->slot_at[r->slot + 2]++;
	for (i = 2; i < n_slot + 2; i++)
		c->slot_at[i] += c->slot_at[i - 1];
	for (r = from; r < end; r++)
		c->reloc[c->slot_at[r->slot + 1]++] = r->r;
}

enum rlx_status rlx_calls_emit(struct rlx_calls *c, const struct rlx_plan *p,
			       rlx_fixed_fn *fixed, void *ctx, struct rlx_error *err)
{
	uint32_t n_slot = rlx_slot_status(p) + 1, n_ref = 0, i;
	struct emission e = { .p = p, .fixed = fixed, .ctx = ctx };
	uint64_t bytes = 0;

	for (i = 0; i < c->n_call; i++) {
		bytes += rlx_align64(rlx_call_at(c, i)->n_args);
		n_ref += rlx_call_at(c, i)->n_ref;
	}
	e.image = rlx_calloc(bytes + 64, 1);
	e.end = e.all = rlx_calloc((size_t)n_ref + 1, sizeof(*e.all));
	c->reloc = rlx_calloc((size_t)n_ref + 1, sizeof(*c->reloc));
	c->slot_at = rlx_calloc((size_t)n_slot + 2, sizeof(*c->slot_at));
	if (!e.image || !e.all || !c->reloc || !c->slot_at) {
		rlx_free(e.image);
		rlx_free(e.all);
		return rlx_fail(err, RLX_ENOMEM, "compile: out of memory");
	}
	for (bytes = 0, i = 0; i < c->n_call; i++) {
		struct rlx_call *call = rlx_call_at(c, i);

		if (call->n_args)
			memcpy(e.image + bytes, c->args + call->args, call->n_args);
		call->args = bytes;
		bytes += rlx_align64(call->n_args);
		resolve(&e, c, call);
	}
	sort(c, e.all, e.end, n_slot);
	rlx_free(e.all);
	rlx_free(c->args);
	rlx_free(c->ref);
	c->args = e.image;
	c->n_args = c->cap_args = bytes;
	c->ref = NULL;
	c->n_ref = c->cap_ref = 0;
	return RLX_OK;
}

unsigned char *rlx_calls_image(const struct rlx_calls *c)
{
	unsigned char *image = rlx_aligned(64, c->n_args + 64);

	if (image && c->n_args)
		memcpy(image, c->args, c->n_args);
	return image;
}

void rlx_calls_bind(const struct rlx_calls *c, unsigned char *image, uint32_t slot,
		    uint64_t address)
{
	uint32_t i;

	for (i = c->slot_at[slot]; i < c->slot_at[slot + 1]; i++) {
		uint64_t v = address ? address + c->reloc[i].off : 0;

		memcpy(image + c->reloc[i].at, &v, sizeof(v));
	}
}

void rlx_calls_fini(struct rlx_calls *c)
{
	rlx_free(c->call);
	rlx_free(c->args);
	rlx_free(c->ref);
	rlx_free(c->reloc);
	rlx_free(c->slot_at);
	*c = (struct rlx_calls){ .size = c->size };
}
