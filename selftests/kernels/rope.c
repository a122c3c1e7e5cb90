// SPDX-License-Identifier: MIT
/* Rotary embedding against double: both styles, layouts, positions, types. */
#include "kernels/rope.h"
#include "selftests/kernels/kcheck.h"

static struct kc_buf tensor(int64_t n, int type, uint64_t *seed)
{
	size_t size = type == RLX_F32 ? 4 : 2;
	struct kc_buf b = kc_buf_new((size_t)n * size, size);

	for (int64_t i = 0; i < n; i++) {
		float x = (float)rlx_test_uniform(seed, -2, 2);

		if (type == RLX_F32)
			((float *)b.p)[i] = x;
		else
			((uint16_t *)b.p)[i] = kc_to_bf16(x);
	}
	return b;
}

static double get(const void *p, int type, int64_t i)
{
	return type == RLX_F32 ? (double)((const float *)p)[i]
				 : (double)kc_from_bf16(((const uint16_t *)p)[i]);
}

/* What element @i of the head at @off becomes. */
static double want(const struct rlx_k_rope *a, const void *x, int64_t off,
		   int64_t i, int64_t row)
{
	int64_t half = a->n_rot / 2, other, k;
	bool first = a->pairs ? i % 2 == 0 : i < half;
	double c, s;

	if (i >= a->n_rot)
		return get(x, a->type, off + i);
	k = a->pairs ? i / 2 : i % half;
	other = a->pairs ? i ^ 1 : first ? i + half : i - half;
	c = get(a->cos, a->table_type, row * half + k);
	s = get(a->sin, a->table_type, row * half + k);
	return get(x, a->type, off + i) * c +
	       get(x, a->type, off + other) * (first ? -s : s);
}

static void one(const struct rlx_kernels *k, uint64_t *seed)
{
	int type = kc_pick(seed, 0, 1) ? RLX_F32 : RLX_BF16;
	struct rlx_k_rope a = { .batch = kc_pick(seed, 1, 3),
		.heads = kc_pick(seed, 1, 4), .len = kc_pick(seed, 1, 9),
		.head_dim = kc_pick(seed, 1, 70), .positions = 20,
		.type = (uint8_t)type, .table_type = (uint8_t)type,
		.pos_type = RLX_I32, .pairs = kc_pick(seed, 0, 1) };
	bool bhsd = kc_pick(seed, 0, 1), in_place = kc_pick(seed, 0, 1);
	int64_t n, d = a.head_dim;
	struct kc_buf x, y, old, c, s;
	int32_t pos[27], bad = 0;

	a.n_rot = kc_pick(seed, 0, d / 2) * 2;
	a.live = a.batch * a.len;
	n = a.batch * a.heads * a.len * d;
	x = tensor(n, type, seed);
	y = tensor(n, type, seed);
	old = tensor(n, type, seed);
	memcpy(old.p, x.p, x.size);
	c = tensor(20 * a.n_rot / 2, type, seed);
	s = tensor(20 * a.n_rot / 2, type, seed);
	a.x = x.p;
	a.y = in_place ? x.p : y.p;
	a.cos = c.p;
	a.sin = s.p;
	a.bad = &bad;
	a.x_stride[0] = a.heads * a.len * d;
	a.x_stride[1] = bhsd ? a.len * d : d;
	a.x_stride[2] = bhsd ? d : a.heads * d;
	memcpy(a.y_stride, a.x_stride, sizeof(a.x_stride));
	for (int i = 0; i < 27; i++)
		pos[i] = (int32_t)kc_pick(seed, -20, 20);
	a.pos = kc_pick(seed, 0, 1) ? pos : NULL;
	a.pos_stride = kc_pick(seed, 0, 1) * a.len;
	kc_run(k->rope, &a, (size_t)(a.batch * a.len), rlx_k_rope_scratch(&a),
	       seed);
	for (int64_t u = 0; u < a.batch * a.heads * a.len; u++) {
		int64_t b = u / a.len / a.heads, h = u / a.len % a.heads;
		int64_t p = u % a.len, row = p;
		int64_t off = b * a.x_stride[0] + h * a.x_stride[1] +
			      p * a.x_stride[2];

		if (a.pos)
			row = pos[b * a.pos_stride + p];
		row += row < 0 ? 20 : 0;
		if (row == 20)
			CHECK(bad == 1);
		for (int64_t i = 0; i < d; i++) {
			double w = row == 20 ? 0 : want(&a, old.p, off, i, row);
			double g = get(a.y, type, off + i);

			CHECKF(fabs(g - w) <= (type == RLX_F32 ? 1e-6 : 2e-2)
			       * (1 + fabs(w)), "%g, not %g", g, w);
		}
	}
	kc_buf_free(&x);
	kc_buf_free(&y);
	kc_buf_free(&old);
	kc_buf_free(&c);
	kc_buf_free(&s);
}

TEST(rope_in_every_form)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 200; t++)
			one(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST_MAIN()
