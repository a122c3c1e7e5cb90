// SPDX-License-Identifier: MIT
/* LSTM, GRU and RNN against double, with every option, in f32 and f64, at every level. */
#include "selftests/kernels/rnn_ref.h"

static struct kc_buf reals(bool f64, int64_t n, double range, uint64_t *seed)
{
	size_t size = f64 ? 8 : 4;
	struct kc_buf b = kc_buf_new((size_t)n * size, size);
	double *p = b.p;

	for (int64_t i = 0; f64 && i < n; i++)
		p[i] = rlx_test_uniform(seed, -range, range);
	if (!f64)
		kc_fill(b.p, (size_t)n, -range, range, seed);
	return b;
}

static void one(const struct rlx_kernels *k, bool f64, uint64_t *seed)
{
	struct rlx_k_rnn a = { .cell = (uint8_t)kc_pick(seed, 0, 2),
		.steps = kc_pick(seed, 0, 6),
		.batch = kc_pick(seed, 1, kc_pick(seed, 0, 3) ? 9 : 21),
		.hidden = kc_pick(seed, 1, 40), .dirs = kc_pick(seed, 1, 2),
		.lens_type = RLX_I32 };
	int64_t g = rlx_k_rnn_gates(a.cell), n = a.hidden;
	int64_t db = a.dirs * a.batch;
	bool rare = kc_pick(seed, 0, 2) == 0;
	/* gates without bounds multiply states: small inputs keep those from growing */
	double size = rare ? 0.25 : 1;
	size_t elem = f64 ? 8 : 4;
	struct kc_buf x = reals(f64, a.steps * db * g * n, size, seed);
	struct kc_buf r = reals(f64, a.dirs * g * n * n, size / sqrt((double)n), seed);
	struct kc_buf s[4], h0, c0, y = reals(f64, a.steps * db * n, 0, seed);
	struct kc_buf packed = kc_buf_new((size_t)a.dirs *
					  rlx_k_rnn_packed(a.cell, n, elem) * elem, elem);
	struct rlx_k_rnn_pack p = { r.p, packed.p, a.dirs, n, a.cell };
	int32_t lens[21];

	for (int i = 0; i < 4; i++)
		s[i] = reals(f64, db * n, size, seed);
	h0 = reals(f64, db * n, size, seed);
	c0 = reals(f64, a.dirs * 3 * n, size, seed);
	memcpy(h0.p, s[0].p, s[0].size);
	for (int i = 0; i < 21; i++)
		lens[i] = (int32_t)kc_pick(seed, 0, a.steps);
	rnn_options(&a, rare, seed);
	a.x = x.p;
	a.r = packed.p;
	a.rb = kc_pick(seed, 0, 1) ? c0.p : NULL;
	a.peep = kc_pick(seed, 0, 2) ? NULL : c0.p;
	a.h0 = kc_pick(seed, 0, 2) ? s[0].p : NULL;
	a.c0 = kc_pick(seed, 0, 2) ? s[1].p : NULL;
	a.lens = kc_pick(seed, 0, 1) ? lens : NULL;
	a.y = y.p;
	a.yh = a.h0 ? s[0].p : s[2].p;
	a.yc = s[3].p;
	rnn_strides(&a, kc_pick(seed, 0, 1));
	kc_run(f64 ? k->rnn_f64_pack : k->rnn_pack, &p, (size_t)a.dirs, 0, seed);
	kc_run(f64 ? k->rnn_f64 : k->rnn, &a, rlx_k_rnn_units(&a), rlx_k_rnn_scratch(&a, elem),
	       seed);
	rnn_check(&(struct rnn_ref){ &a, f64, r.p, h0.p, s[1].p, f64 ? 1e-13 : 2e-5 });
	kc_buf_free(&x);
	kc_buf_free(&r);
	kc_buf_free(&y);
	kc_buf_free(&packed);
	kc_buf_free(&h0);
	kc_buf_free(&c0);
	for (int i = 0; i < 4; i++)
		kc_buf_free(&s[i]);
}

TEST(cells_with_every_option)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 400; t++)
			one(rlx_kernels_get((enum rlx_isa)l), t & 1, &seed);
}

TEST_MAIN()
