// SPDX-License-Identifier: MIT
/* Keys of what runners keep: bytes that say all there is to say of values. */
#include <string.h>

#include "base/alloc.h"
#include "model/model.h"

void rlx_key_add(struct rlx_key *k, const void *p, size_t n)
{
	if (k->failed || n > UINT32_MAX - k->n ||
	    !rlx_grow(&k->p, &k->cap, k->n + (uint32_t)n, 1)) {
		k->failed = true;
		return;
	}
	if (n)
		memcpy(k->p + k->n, p, n);
	k->n += (uint32_t)n;
}

void rlx_key_type(struct rlx_key *k, const struct rlx_type *t)
{
	int32_t head[2] = { (int32_t)t->dtype, (int32_t)t->rank };

	rlx_key_add(k, head, sizeof(head));
	rlx_key_add(k, t->dim, t->rank * sizeof(t->dim[0]));
}

static void key_spec(struct rlx_key *k, const struct rlx_spec *s, int depth)
{
	uint32_t kind = s->kind, i;

	rlx_key_add(k, &kind, sizeof(kind));
	if (s->name)
		rlx_key_add(k, s->name, strlen(s->name) + 1);
	rlx_key_add(k, &s->n_item, sizeof(s->n_item));
	rlx_key_type(k, &s->type);
	for (i = 0; s->kind == RLX_SPEC_STRINGS && i < rlx_type_count(&s->type); i++) {
		rlx_key_add(k, &s->str[i].n, sizeof(s->str[i].n));
		rlx_key_add(k, s->str[i].p, s->str[i].n);
	}
	for (i = 0; s->kind == RLX_SPEC_LIST && i < s->n_item && depth < 8; i++)
		key_spec(k, &s->item[i], depth + 1);
}

static void key_contents(struct rlx_key *k, const struct rlx_spec *s)
{
	uint32_t i;

	if (s->kind == RLX_SPEC_TENSOR && s->data)
		rlx_key_add(k, s->data, (size_t)rlx_type_bytes(&s->type));
	for (i = 0; s->kind == RLX_SPEC_LIST && i < s->n_item; i++)
		key_contents(k, &s->item[i]);
}

void rlx_key_types(struct rlx_key *k, const struct rlx_runner *r, const struct rlx_spec *in,
		   unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		key_spec(k, &in[i], 0);
	for (i = 0; i < r->n_param; i++)	/* sizes may follow from params, too */
		rlx_key_type(k, &r->param[i].type);
}

void rlx_key_asked(struct rlx_key *k, const struct rlx_spec *in, unsigned int n, uint64_t asked)
{
	unsigned int i;

	for (i = 0; i < n && i < 64; i++)
		if (asked >> i & 1)
			key_contents(k, &in[i]);
}
