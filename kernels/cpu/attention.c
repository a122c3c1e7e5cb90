// SPDX-License-Identifier: MIT
/* The attention kernel: splits its units and feeds one of two loops. */
#include "kernels/cpu/attention.h"

rlx_k_fn RLX_K(attention);

void RLX_K(att_query)(const struct att_block *t, int64_t r, float *to)
{
	const struct rlx_k_attention *a = t->a;
	const struct att_row w = att_row_at(t, r);
	const int64_t off = t->b * a->q_stride[0] + w.head * a->q_stride[1] +
			    w.query * a->q_stride[2];
	const int64_t size = (int64_t)rlx_k_type_size(
		(enum rlx_dtype)a->q_type);
	const char *p = (const char *)a->q + off * size;
	const size_t d = (size_t)a->head_dim;
	const float *x = (const float *)(const void *)p;

	if (a->q_type != RLX_F32) {
		RLX_K(loader)(RLX_EW_F32, a->q_type)(to, p, d);
		x = to;
	}
	for (size_t i = 0; i < t->d; i += RLX_VL) {
		vf v = vf_loadn(x + i, i < d ? d - i : 0);

		vf_storeu(to + i, v * a->scale);
	}
}

void RLX_K(att_store)(const struct att_block *t, int64_t r, const float *from)
{
	const struct rlx_k_attention *a = t->a;
	const struct att_row w = att_row_at(t, r);
	const int64_t off = t->b * a->out_stride[0] +
			    w.head * a->out_stride[1] +
			    w.query * a->out_stride[2];
	const int64_t size = (int64_t)rlx_k_type_size(
		(enum rlx_dtype)a->out_type);

	RLX_K(storer)(RLX_EW_F32, a->out_type)(
		(char *)a->out + off * size, from, (size_t)a->v_dim);
}

/* Rows of keys or values: the first, their distance in elements, their width. */
struct rows {
	const void	*p;
	int64_t		off, stride;
	size_t		n, d;
};

/* As floats: where they are, or converted into buf. */
static const float *rows_of(const struct rows *r, int type, float *buf,
			    size_t *ld)
{
	const int64_t size = (int64_t)rlx_k_type_size((enum rlx_dtype)type);
	rlx_convert_fn *load = RLX_K(loader)(RLX_EW_F32, type);
	const char *s = (const char *)r->p + r->off * size;

	if (type == RLX_F32) {
		*ld = (size_t)r->stride;
		return (const float *)(const void *)s;
	}
	*ld = (r->d + 15) / 16 * 16;
	for (size_t i = 0; i < r->n; i++)
		load(buf + i * *ld, s + (int64_t)i * r->stride * size, r->d);
	return buf;
}

void RLX_K(att_tile)(const struct att_block *t, struct att_tile *k, int64_t at)
{
	const struct rlx_k_attention *a = t->a;
	const int64_t *ks = a->k_stride, *vs = a->v_stride;
	struct rows r = {
		.p = a->k, .stride = ks[2], .d = (size_t)a->head_dim,
		.off = t->b * ks[0] + t->kvh * ks[1] + at * ks[2],
		.n = (size_t)(t->hi - at < KEYS ? t->hi - at : KEYS),
	};

	k->at = at;
	k->n = r.n;
	k->k = rows_of(&r, a->kv_type, t->kbuf, &k->ldk);
	r.p = a->v;
	r.stride = vs[2];
	r.d = (size_t)a->v_dim;
	r.off = t->b * vs[0] + t->kvh * vs[1] + at * vs[2];
	k->v = rows_of(&r, a->kv_type, t->vbuf, &k->ldv);
}

void RLX_K(attention)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_attention *a = args;
	struct att_block t;

	att_scratch(&t, a, scratch);
	for (size_t u = begin; u < end; u++) {
		att_unit(&t, u);
		if (t.n_rows <= 8 && !a->strict)
			RLX_K(att_short_kv)(&t);
		else
			RLX_K(att_many)(&t);
	}
}
