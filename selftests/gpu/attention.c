// SPDX-License-Identifier: MIT
/* GPU attention on the emulator: layouts, masks, heads, widths, split keys. */
#include "selftests/gpu/against_cpu.h"

#include "kernels/attention.h"

#include <float.h>

/* Strides of [batch, heads, length, dim], stored so or with heads inside. */
static int64_t layout(int64_t *stride, int64_t heads, int64_t len, int64_t dim, bool inside)
{
	stride[0] = heads * len * dim;
	stride[1] = inside ? dim : len * dim;
	stride[2] = inside ? heads * dim : dim;
	return stride[0];
}

struct form {
	int	type, out_type;
	int64_t	q_len, kv_len, dim, v_dim;
	bool	plain;
	int64_t	batch;		/* 0: a few */
};

static int64_t length(const struct rlx_k_attention *a, int64_t b)
{
	int64_t n = a->lens_type == RLX_I64 ? ((const int64_t *)a->kv_lens)[b] :
						((const int32_t *)a->kv_lens)[b];

	return n < 0 ? 0 : n;
}

/* What stands beyond a row's last key is nobody's: NaN, which no weight of 0 makes 0. */
static void spoil(const void *p, const int64_t *stride, const struct rlx_k_attention *a,
		  int type, int64_t dim)
{
	uint32_t nan = 0x7fffffff;
	size_t size = rlx_k_type_size((enum rlx_dtype)type);

	for (int64_t b = 0; b < a->batch; b++)
		for (int64_t h = 0; h < a->kv_heads; h++)
			for (int64_t r = length(a, b); r < a->kv_len; r++)
				for (int64_t d = 0; d < dim; d++)
					memcpy((char *)(uintptr_t)p + (size_t)(b * stride[0] +
						h * stride[1] + r * stride[2] + d) * size,
					       (char *)&nan + 4 - size, size);
}

static void one_attention(const struct form *m, uint64_t *seed)
{
	int64_t group = kc_pick(seed, 1, 3), kvh = kc_pick(seed, 1, 2), nq, nk, nv, no;
	struct rlx_k_attention a = { .batch = m->batch ? m->batch : kc_pick(seed, 1, 2),
		.heads = group * kvh, .kv_heads = kvh, .q_len = m->q_len, .kv_len = m->kv_len,
		.head_dim = m->dim, .v_dim = m->v_dim, .scale = 0.3f,
		.q_offset = m->kv_len - m->q_len, .causal = kc_pick(seed, 0, 1),
		.window = kc_pick(seed, 0, 2) ? 0 : kc_pick(seed, 1, m->kv_len),
		.softcap = m->plain || kc_pick(seed, 0, 1) ? 0 : 2.5f,
		.q_type = (uint8_t)m->type, .kv_type = (uint8_t)m->type,
		.out_type = (uint8_t)m->out_type,
		.lens_type = kc_pick(seed, 0, 1) ? RLX_I32 : RLX_I64 };
	bool in_q = kc_pick(seed, 0, 1), in_k = kc_pick(seed, 0, 1);
	int bt = m->plain ? 0 : kc_pick(seed, 0, 1) ? RLX_F32 : RLX_BOOL;
	int64_t nb = a.heads * m->q_len * m->kv_len, rows = a.batch * a.heads * m->q_len;
	double tol = m->out_type == RLX_F32 && m->type == RLX_F32 ? 2e-5 :
		     m->type == RLX_F16 ? 4e-3 : 2.5e-2;

	nq = a.batch * layout(a.q_stride, a.heads, m->q_len, m->dim, in_q);
	nk = a.batch * layout(a.k_stride, kvh, m->kv_len, m->dim, in_k);
	nv = a.batch * layout(a.v_stride, kvh, m->kv_len, m->v_dim, in_k);
	no = a.batch * layout(a.out_stride, a.heads, m->q_len, m->v_dim, in_q);
	a.q = gpu_alloc((size_t)nq, m->type, -1, 1, seed);
	a.k = gpu_alloc((size_t)nk, m->type, -1, 1, seed);
	a.v = gpu_alloc((size_t)nv, m->type, -1, 1, seed);
	a.out = gpu_alloc((size_t)no, m->out_type, 0, 0, seed);
	if (bt) {
		a.bias = gpu_alloc((size_t)nb, bt, bt == RLX_F32 ? -1 : 0, 2, seed);
		a.bias_type = (uint8_t)bt;
		a.bias_stride[1] = m->q_len * m->kv_len;
		a.bias_stride[2] = m->kv_len;
		a.bias_stride[3] = 1;
		if (kc_pick(seed, 0, 1))	/* all queries have the first one's */
			a.bias_stride[2] = 0;
		for (int64_t j = 0; j < m->kv_len && bt == RLX_F32 && kc_pick(seed, 0, 1); j++)
			((float *)(uintptr_t)a.bias)[j] = -FLT_MAX;
	}
	if (kc_pick(seed, 0, 1)) {
		a.kv_lens = gpu_alloc((size_t)a.batch, a.lens_type, 0, (double)m->kv_len + 1,
				      seed);
		if (a.lens_type == RLX_I64 && kc_pick(seed, 0, 1))	/* many, cut to 32 bits */
			*(int64_t *)(uintptr_t)a.kv_lens = -(1ll << 32) + (1 << 20);
		spoil(a.k, a.k_stride, &a, m->type, m->dim);
		spoil(a.v, a.v_stride, &a, m->type, m->v_dim);
	}
	if (kc_pick(seed, 0, 1))
		a.lse = gpu_alloc((size_t)rows, RLX_F32, 0, 0, seed);
	{
		struct gpu_field f[] = {
			GPU_IN(struct rlx_k_attention, q, m->type, nq),
			GPU_IN(struct rlx_k_attention, k, m->type, nk),
			GPU_IN(struct rlx_k_attention, v, m->type, nv),
			GPU_IN(struct rlx_k_attention, bias, bt ? bt : RLX_U8, nb),
			GPU_IN(struct rlx_k_attention, kv_lens, a.lens_type, a.batch),
			GPU_OUT(struct rlx_k_attention, lse, RLX_F32, rows,
				m->type == RLX_F32 ? 1e-5 : 1e-2),
			GPU_OUT(struct rlx_k_attention, out, m->out_type, no, tol),
		};

		GPU_AGAINST_CPU(attention, a, rlx_k_attention_units(&a),
				rlx_k_attention_scratch(&a), f, seed);
	}
}

TEST(rows_of_f32)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 8; i++)
		one_attention(&(struct form){ RLX_F32, RLX_F32, kc_pick(&seed, 1, 12),
			kc_pick(&seed, 12, 90), kc_pick(&seed, 1, 70), kc_pick(&seed, 1, 70),
			i % 2 }, &seed);
	one_attention(&(struct form){ RLX_F32, RLX_F32, 2, 70, 300, 520, true }, &seed);
}

/* Tiles of 16 queries, and of 64 where they are many. */
TEST(tiles_of_f32)
{
	static const int64_t dims[][2] = { { 32, 32 }, { 64, 64 }, { 128, 128 }, { 96, 72 },
					   { 27, 32 }, { 40, 9 } };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 12; i++)
		one_attention(&(struct form){ RLX_F32, i % 4 ? RLX_F32 : RLX_F16,
			kc_pick(&seed, 4, 150), kc_pick(&seed, 150, 200), dims[i % 6][0],
			dims[i % 6][1], i % 2, i % 6 < 2 ? 40 : 0 }, &seed);
}

TEST(split_keys)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 6; i++)
		one_attention(&(struct form){ i % 2 ? RLX_BF16 : RLX_F16,
			i % 2 ? RLX_BF16 : RLX_F32, kc_pick(&seed, 1, 3),
			kc_pick(&seed, 300, 1200), 64, i % 3 ? 64 : 40, i % 2 }, &seed);
}

TEST(tensor_cores)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 6; i++)
		one_attention(&(struct form){ i % 2 ? RLX_BF16 : RLX_F16,
			i % 3 ? RLX_BF16 : RLX_F32, kc_pick(&seed, 8, 150),
			kc_pick(&seed, 150, 200), i % 2 ? 64 : kc_pick(&seed, 1, 64),
			i % 2 ? 64 : kc_pick(&seed, 1, 64), i % 2 }, &seed);
	one_attention(&(struct form){ RLX_BF16, RLX_BF16, 70, 100, 128, 128, true }, &seed);
	one_attention(&(struct form){ RLX_BF16, RLX_BF16, 20, 70, 200, 256, true }, &seed);
}

/* Wide heads where blocks have little shared memory. */
TEST(no_room_for_tiles)
{
	static const int64_t dims[] = { 64, 96, 128, 256 };
	uint64_t seed = rlx_test_seed();

	gpu_plan_shared(SHARED_AMD);
	for (int i = 0; i < 4; i++)
		one_attention(&(struct form){ RLX_BF16, RLX_BF16, 20, 70, dims[i], dims[i],
			true }, &seed);
	gpu_plan_shared(SHARED_90);
}

/* Several tiles of queries and of keys at each width of a head, aligned or not. */
TEST(warpgroups)
{
	static const int64_t dims[][2] = { { 32, 32 }, { 64, 64 }, { 128, 128 }, { 96, 96 },
					   { 256, 256 }, { 64, 40 }, { 27, 32 }, { 72, 128 } };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 16; i++)
		one_attention(&(struct form){ i % 3 ? RLX_BF16 : RLX_F16,
			i % 5 ? RLX_BF16 : RLX_F32, kc_pick(&seed, 65, 270),
			kc_pick(&seed, 65, 400), dims[i % 8][0], dims[i % 8][1], i < 8 }, &seed);
	/* more jobs than blocks */
	one_attention(&(struct form){ RLX_BF16, RLX_BF16, 200, 70, 64, 64, true, 70 }, &seed);
}

TEST(few_keys)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 12; i++)
		one_attention(&(struct form){ i % 2 ? RLX_BF16 : RLX_F16,
			i % 3 ? RLX_F16 : RLX_F32, kc_pick(&seed, 1, 40),
			kc_pick(&seed, 1, 64), i % 3 ? 32 : kc_pick(&seed, 1, 128),
			i % 3 ? 32 : kc_pick(&seed, 1, 128), i % 2 }, &seed);
}

/* The ways that @is finds take turns; how often there was one, and whether it is no NVIDIA chip. */
struct turns {
	struct rlx_g_judge	judge;	/* the first */
	bool			(*is)(const struct rlx_g_candidate *c);
	unsigned int		turn, taken;
	bool			no_arch;
};

static unsigned int take_turns(struct rlx_g_judge *j, const struct rlx_g_family *f,
			       const void *args, const struct rlx_g_candidate *c, unsigned int n,
			       unsigned int least)
{
	unsigned int found = 0, i, ways[RLX_G_MOST_CANDIDATES];
	struct turns *t = (struct turns *)j;

	(void)f;
	(void)args;
	for (i = 0; i < n; i++)
		if (!c[i].why_not && t->is(&c[i]))
			ways[found++] = i;
	t->taken += found > 0;
	t->no_arch = !c->launch.arch;
	return found ? ways[t->turn++ % found] : least;
}

/* One of the ways of attention_decode, where rows begin at 16 bytes. */
static bool is_decode(const struct rlx_g_candidate *c)
{
	return c->variant == RLX_G_attention_decode;
}

TEST(few_queries)
{
	struct turns t = { { take_turns }, .is = is_decode };
	uint64_t seed = rlx_test_seed();

	gpu_judge = &t.judge;
	for (int i = 0; i < 48; i++)
		one_attention(&(struct form){ i % 2 ? RLX_BF16 : RLX_F16,
			i % 3 ? i % 2 ? RLX_BF16 : RLX_F16 : RLX_F32,
			i % 4 ? kc_pick(&seed, 1, 8) : kc_pick(&seed, 9, 40),
			kc_pick(&seed, 40, i % 5 ? 300 : 1500), kc_pick(&seed, 1, 16) * 8,
			kc_pick(&seed, 1, 16) * 8, i % 2 }, &seed);
	gpu_judge = NULL;
	/* it needs warps of 32 lanes */
	CHECKF(t.taken > 2 || t.no_arch, "%u of 48", t.taken);
}

/* One of the ways of tiles by several blocks, where keys are enough. */
static bool is_split(const struct rlx_g_candidate *c)
{
	return (c->variant == RLX_G_attention_mma || c->variant == RLX_G_attention_wgmma) &&
	       c->launch.n_launches > 1;
}

TEST(tiles_of_split_keys)
{
	static const int64_t dims[] = { 256, 64, 200, 128, 32, 90 };
	struct turns t = { { take_turns }, .is = is_split };
	uint64_t seed = rlx_test_seed();

	gpu_judge = &t.judge;
	for (int i = 0; i < 18; i++)
		one_attention(&(struct form){ i % 2 ? RLX_BF16 : RLX_F16,
			i % 3 ? i % 2 ? RLX_BF16 : RLX_F16 : RLX_F32,
			i % 2 ? kc_pick(&seed, 8, 150) : kc_pick(&seed, 1, 7),
			kc_pick(&seed, 300, 900), dims[i % 6], dims[i % 6], i % 4 > 1 }, &seed);
	gpu_judge = NULL;
	CHECKF(t.taken > 2, "%u of 18", t.taken);
}

/* Each kernel that can do it does, whether or not it is the fastest. */
TEST(any_candidate)
{
	static const int type[] = { RLX_F32, RLX_F16, RLX_BF16 };
	uint64_t seed = rlx_test_seed();

	gpu_judge = &any_candidate;
	for (int i = 0; i < 24; i++)
		one_attention(&(struct form){ type[i % 3], i % 4 ? type[i % 3] : RLX_F32,
			kc_pick(&seed, 4, 80), kc_pick(&seed, 80, i % 2 ? 90 : 600),
			kc_pick(&seed, 1, 16) * 8, kc_pick(&seed, 1, 16) * 8, i % 2 }, &seed);
	for (int i = 0; i < 8; i++)
		one_attention(&(struct form){ type[1 + i % 2], type[1 + i % 2],
			kc_pick(&seed, 8, 40), kc_pick(&seed, 40, 64), 64, 64, i % 2 }, &seed);
	gpu_judge = NULL;
}

TEST_MAIN()
