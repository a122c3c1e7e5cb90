// SPDX-License-Identifier: MIT
/* GPU kernels that move elements, on the emulator. */
#include "kernels/fill.h"
#include "selftests/gpu/against_cpu.h"

static int type_of_size(int size)
{
	return size == 1 ? RLX_U8 : size == 2 ? RLX_U16 : size == 4 ? RLX_U32 : RLX_I64;
}

/* A transpose of a random shape: strides of src permuted, dst dense. */
static void one_copy(uint64_t *seed)
{
	int rank = (int)kc_pick(seed, 1, 4), size = 1 << kc_pick(seed, 0, 3);
	int perm[4] = { 0, 1, 2, 3 }, t = type_of_size(size);
	struct rlx_k_copy a = { .rank = rank, .size = (uint8_t)size };
	int64_t dim[4], stride[4], n = 1;

	for (int d = rank - 1; d >= 0; d--) {
		dim[d] = kc_pick(seed, 1, rank > 2 ? 20 : 90);
		stride[d] = n;
		n *= dim[d];
	}
	for (int d = rank - 1; d > 0; d--) {
		int e = (int)kc_pick(seed, 0, d), keep = perm[d];

		perm[d] = perm[e];
		perm[e] = keep;
	}
	for (int d = 0; d < rank; d++) {
		a.dim[d] = dim[perm[d]];
		a.src_stride[d] = kc_pick(seed, 0, 5) ? stride[perm[d]] : 0;
	}
	for (int64_t d = rank - 1, s = 1; d >= 0; s *= a.dim[d--])
		a.dst_stride[d] = s;
	{
		struct gpu_field f[] = { GPU_IN(struct rlx_k_copy, src, t, n),
					 GPU_OUT(struct rlx_k_copy, dst, t, n, 0) };

		a.src = gpu_alloc((size_t)n, t, 0, 255, seed);
		a.dst = gpu_alloc((size_t)n, t, 0, 0, seed);
		rlx_k_copy_plan(&a);
		GPU_AGAINST_CPU(copy, a, rlx_k_copy_units(&a), 0, f, seed);
	}
}

/* One side of a copy: elements of its buffer, and the one with index 0. */
struct side {
	int64_t	n, at;
};

enum { GAPS = 1, BACKWARDS };

/*
 * Strides of @rank dimensions that follow each other in the order of @perm, dense but for gaps
 * and steps (GAPS); some are walked from their end (BACKWARDS).
 */
static struct side lay_out(int rank, const int64_t *dim, const int *perm, int how,
			   int64_t *stride, uint64_t *seed)
{
	bool loose = how & GAPS, backwards = how & BACKWARDS;
	struct side s = { loose ? kc_pick(seed, 0, 1) * kc_pick(seed, 0, 9) : 0, 0 };
	int64_t next = 1;

	s.at = s.n;
	for (int i = rank - 1; i >= 0; i--) {
		int d = perm[i];

		stride[d] = next * (loose && !kc_pick(seed, 0, 7) ? 2 : 1);
		next = stride[d] * dim[d];
		if (loose && !kc_pick(seed, 0, 2))
			next += kc_pick(seed, 0, 1) ? 8 : kc_pick(seed, 1, 5);
		s.n += (dim[d] - 1) * stride[d];
		if (backwards && !kc_pick(seed, 0, 5)) {
			s.at += (dim[d] - 1) * stride[d];
			stride[d] = -stride[d];
		}
	}
	s.n++;
	return s;
}

static void run_copy(struct rlx_k_copy *a, struct side src, struct side dst, uint64_t *seed)
{
	int t = a->size == 16 ? RLX_I64 : type_of_size(a->size), words = a->size == 16 ? 2 : 1;
	struct gpu_field f[] = { GPU_IN(struct rlx_k_copy, src, t, src.n * words),
				 GPU_OUT(struct rlx_k_copy, dst, t, dst.n * words, 0) };

	a->src = gpu_alloc((size_t)(src.n * words), t, 0, a->size == 1 ? 255 : 6e4, seed);
	a->dst = gpu_alloc((size_t)(dst.n * words), t, 0, 0, seed);
	f[0].before = (size_t)src.at * a->size;
	f[1].before = (size_t)dst.at * a->size;
	f[0].unit = f[1].unit = a->size;
	a->src = (const char *)a->src + f[0].before;
	a->dst = (char *)a->dst + f[1].before;
	rlx_k_copy_plan(a);
	if (!kc_pick(seed, 0, 4))	/* as if it had gigabytes */
		a->narrow = false;
	GPU_AGAINST_CPU(copy, *a, rlx_k_copy_units(a), 0, f, seed);
}

/* Any box: short and long dimensions in any order, gaps, steps, odd offsets, backwards. */
static void one_box(uint64_t *seed)
{
	static const int64_t pick[] = { 1, 2, 3, 4, 7, 9, 16, 25, 49, 64, 130, 196, 300, 512 };
	int rank = (int)kc_pick(seed, 1, 4), perm[4] = { 0, 1, 2, 3 }, same[4] = { 0, 1, 2, 3 };
	struct rlx_k_copy a = { .rank = rank, .size = (uint8_t)(1 << kc_pick(seed, 0, 4)) };
	bool loose = kc_pick(seed, 0, 1);
	struct side src, dst;
	int64_t n = 1;

	for (int d = 0; d < rank; d++) {
		a.dim[d] = pick[kc_pick(seed, 0, 13)];
		while (n * a.dim[d] > 100000)
			a.dim[d] = (a.dim[d] + 1) / 2;
		n *= a.dim[d];
	}
	for (int d = rank - 1; d > 0 && kc_pick(seed, 0, 4); d--) {
		int e = (int)kc_pick(seed, 0, d), keep = perm[d];

		perm[d] = perm[e];
		perm[e] = keep;
	}
	src = lay_out(rank, a.dim, perm, loose ? GAPS | BACKWARDS : 0, a.src_stride, seed);
	if (kc_pick(seed, 0, 1))
		loose = false;
	dst = lay_out(rank, a.dim, same, loose ? GAPS : 0, a.dst_stride, seed);
	if (!kc_pick(seed, 0, 5)) {	/* all or some of them repeat */
		src.at = 0;
		for (int d = 0; d < rank; d++)
			a.src_stride[d] = kc_pick(seed, 0, 3) ? 0 :
					  rlx_k_abs64(a.src_stride[d]);
	}
	run_copy(&a, src, dst, seed);
}

/* [planes, rows, cols] to [planes, cols, rows], of which a tile holds many short rows. */
static void one_transpose(const int64_t *dim, int size, uint64_t *seed)
{
	static const int perm[3] = { 0, 2, 1 }, same[3] = { 0, 1, 2 };
	struct rlx_k_copy a = { .rank = 3, .size = (uint8_t)size,
				.dim = { dim[0], dim[2], dim[1] } };
	struct side src = lay_out(3, a.dim, perm, 0, a.src_stride, seed);
	struct side dst = lay_out(3, a.dim, same, 0, a.dst_stride, seed);

	run_copy(&a, src, dst, seed);
}

TEST(copy_boxes)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 60; i++)
		one_box(&seed);
}

TEST(copy_transposes)
{
	static const int64_t dim[][3] = {
		{ 300, 130, 9 }, { 300, 9, 130 }, { 1, 9, 40000 }, { 2, 20011, 3 }, { 7, 2, 3000 },
		{ 3, 200, 49 }, { 280, 196, 5 }, { 300, 70, 6 }, { 300, 10, 100 }, { 2, 169, 90 },
		{ 2, 260, 258 }, { 5, 129, 255 },
	};
	uint64_t seed = rlx_test_seed();

	for (size_t i = 0; i < sizeof(dim) / sizeof(dim[0]); i++) {
		one_transpose(dim[i], 2, &seed);
		one_transpose(dim[i], 1 << kc_pick(&seed, 0, 3), &seed);
	}
}

TEST(copy)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 30; i++)
		one_copy(&seed);
}

/* Indices, some negative, and (with @bad) one out of range. */
static void *indices(int64_t n, int type, int64_t rows, bool bad, uint64_t *seed)
{
	void *p = gpu_alloc((size_t)n, type, type == RLX_U32 ? 0 : (double)-rows,
			    (double)rows, seed);

	if (bad && n) {
		int64_t at = kc_pick(seed, 0, n - 1);

		gpu_fill((char *)p + (size_t)at * rlx_k_type_size((enum rlx_dtype)type), 1,
			 type, (double)rows, (double)rows + 5, seed);
	}
	return p;
}

/* How many of @n indices carry data: often all. */
static int64_t live_of(int64_t n, uint64_t *seed)
{
	return kc_pick(seed, 0, 1) ? n : kc_pick(seed, 0, n);
}

static const int index_type[3] = { RLX_I64, RLX_I32, RLX_U32 };

static void one_gather(bool bad, uint64_t *seed)
{
	int it = index_type[kc_pick(seed, 0, 2)], each = 1 << kc_pick(seed, 0, 2);
	int32_t told = 0;
	struct rlx_k_gather a = { .bad = &told, .outer = kc_pick(seed, 1, 3),
		.rows = kc_pick(seed, 1, 40), .n_idx = kc_pick(seed, 1, 30),
		.inner = each * kc_pick(seed, 1, 70), .idx_type = (uint8_t)it };
	int t = type_of_size(each);
	int64_t n_table = a.outer * a.rows * a.inner / each;
	int64_t n_out = a.outer * a.n_idx * a.inner / each;

	a.live = live_of(a.n_idx, seed);
	struct gpu_field f[] = { GPU_IN(struct rlx_k_gather, table, t, n_table),
				 GPU_IN(struct rlx_k_gather, idx, it, a.n_idx),
				 GPU_OUT(struct rlx_k_gather, bad, RLX_I32, 1, 0),
				 GPU_OUT(struct rlx_k_gather, out, t, n_out, 0) };

	a.table = gpu_alloc((size_t)n_table, t, 0, 255, seed);
	a.idx = indices(a.n_idx, it, a.rows, bad, seed);
	a.out = gpu_alloc((size_t)n_out, t, 0, 0, seed);
	GPU_AGAINST_CPU(gather, a, (size_t)(a.outer * a.n_idx), 0, f, seed);
	CHECK(a.live == a.n_idx ? told == bad : told <= bad);
}

TEST(gather)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 20; i++)
		one_gather(i % 4 == 3, &seed);
}

static void one_gather_elements(bool bad, uint64_t *seed)
{
	int it = index_type[kc_pick(seed, 0, 2)], t = type_of_size(1 << kc_pick(seed, 0, 3));
	int32_t told = 0;
	struct rlx_k_gather_elements a = { .bad = &told, .rank = 3,
		.axis = (int)kc_pick(seed, 0, 2), .idx_type = (uint8_t)it,
		.size = (uint8_t)rlx_k_type_size((enum rlx_dtype)t) };
	int64_t n = 1, all = 1, full[3];

	for (int d = 2; d >= 0; d--) {
		full[d] = kc_pick(seed, 1, 12);
		a.dim[d] = d == a.axis ? kc_pick(seed, 1, 9) : full[d];
		a.data_stride[d] = all;
		all *= full[d];
		n *= a.dim[d];
	}
	a.axis_dim = full[a.axis];
	a.live = live_of(n, seed);
	{
		struct gpu_field f[] = {
			GPU_IN(struct rlx_k_gather_elements, data, t, all),
			GPU_IN(struct rlx_k_gather_elements, idx, it, n),
			GPU_OUT(struct rlx_k_gather_elements, bad, RLX_I32, 1, 0),
			GPU_OUT(struct rlx_k_gather_elements, out, t, n, 0) };

		a.data = gpu_alloc((size_t)all, t, 0, 255, seed);
		a.idx = indices(n, it, a.axis_dim, bad, seed);
		a.out = gpu_alloc((size_t)n, t, 0, 0, seed);
		GPU_AGAINST_CPU(gather_elements, a, (size_t)(n / a.dim[2]), 0, f,
				seed);
	}
	CHECK(a.live == n ? told == bad : told <= bad);
}

static void one_gather_nd(bool bad, uint64_t *seed)
{
	int32_t told = 0;
	struct rlx_k_gather_nd a = { .bad = &told, .batch = kc_pick(seed, 1, 3),
		.n = kc_pick(seed, 1, 20), .inner = 4 * kc_pick(seed, 1, 9), .k = 2,
		.dim = { 7, 5 }, .idx_type = RLX_I64 };
	a.live = live_of(a.batch * a.n, seed);
	int64_t all = a.batch * 35 * a.inner / 4, n = a.batch * a.n * a.inner / 4;
	struct gpu_field f[] = { GPU_IN(struct rlx_k_gather_nd, data, RLX_U32, all),
		GPU_IN(struct rlx_k_gather_nd, idx, RLX_I64, a.batch * a.n * 2),
		GPU_OUT(struct rlx_k_gather_nd, bad, RLX_I32, 1, 0),
		GPU_OUT(struct rlx_k_gather_nd, out, RLX_U32, n, 0) };

	a.data = gpu_alloc((size_t)all, RLX_U32, 0, 1e9, seed);
	a.idx = indices(a.batch * a.n * 2, RLX_I64, 5, false, seed);
	if (bad)
		((int64_t *)(uintptr_t)a.idx)[1] = 5;
	a.out = gpu_alloc((size_t)n, RLX_U32, 0, 0, seed);
	GPU_AGAINST_CPU(gather_nd, a, (size_t)(a.batch * a.n), 0, f, seed);
	CHECK(a.live == a.batch * a.n ? told == bad : told <= bad);
}

TEST(gather_more)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 12; i++) {
		one_gather_elements(i % 4 == 3, &seed);
		one_gather_nd(i % 4 == 3, &seed);
	}
}

static const int scatter_type[] = { RLX_F32, RLX_BF16, RLX_I64, RLX_U8 };

/* @along: not 0: so many updates of a line, the last one for a place wins. */
static void one_scatter(int64_t along, bool bad, uint64_t *seed)
{
	int t = scatter_type[kc_pick(seed, 0, 3)];
	int32_t told = 0;
	struct rlx_k_scatter_elements a = { .bad = &told, .rank = 2,
		.axis = (int)kc_pick(seed, 0, 1), .type = (uint8_t)t, .idx_type = RLX_I64,
		.dim = { kc_pick(seed, 1, 9), kc_pick(seed, 1, 9) },
		.op = (uint8_t)kc_pick(seed, 0, 4), .axis_dim = kc_pick(seed, 1, 6) };
	if (along) {
		a.dim[a.axis] = along;
		a.op = RLX_K_SCATTER_NONE;
		a.axis_dim = kc_pick(seed, 1, 2 * along);
	}
	int64_t n = a.dim[0] * a.dim[1], rows = a.axis ? a.dim[0] : a.axis_dim;
	int64_t cols = a.axis ? a.axis_dim : a.dim[1];

	a.live = live_of(n, seed);
	struct gpu_field f[] = { GPU_IN(struct rlx_k_scatter_elements, upd, t, n),
		GPU_IN(struct rlx_k_scatter_elements, idx, RLX_I64, n),
		GPU_OUT(struct rlx_k_scatter_elements, bad, RLX_I32, 1, 0),
		GPU_OUT(struct rlx_k_scatter_elements, out, t, rows * cols, 1e-6) };

	a.out_stride[0] = cols;
	a.out_stride[1] = 1;
	a.upd = gpu_alloc((size_t)n, t, t == RLX_U8 ? 0 : -3, 4, seed);
	a.idx = indices(n, RLX_I64, a.axis_dim, bad, seed);
	a.out = gpu_alloc((size_t)(rows * cols), t, t == RLX_U8 ? 0 : -3, 4, seed);
	GPU_AGAINST_CPU(scatter_elements, a, (size_t)(n / a.dim[a.axis]), 0, f,
			seed);
	CHECK(a.live == n ? told == bad : told <= bad);
}

/* @many: blocks share out the places. */
static void one_scatter_nd(bool bad, bool many, uint64_t *seed)
{
	int t = scatter_type[kc_pick(seed, 0, 3)];
	int32_t told = 0;
	struct rlx_k_scatter_nd a = { .bad = &told,
		.n = many ? kc_pick(seed, 64, 2100) : kc_pick(seed, 1, 20),
		.inner = many ? kc_pick(seed, 1, 300) : kc_pick(seed, 1, 50), .k = 2,
		.dim = { 3, 4 }, .type = (uint8_t)t, .idx_type = RLX_I64,
		.op = (uint8_t)kc_pick(seed, 0, 4) };

	if (many && a.op == RLX_K_SCATTER_MUL)	/* of so many numbers no product is finite */
		a.op = RLX_K_SCATTER_ADD;
	a.live = live_of(a.n, seed);
	struct gpu_field f[] = { GPU_IN(struct rlx_k_scatter_nd, upd, t, a.n * a.inner),
		GPU_IN(struct rlx_k_scatter_nd, idx, RLX_I64, a.n * 2),
		GPU_OUT(struct rlx_k_scatter_nd, bad, RLX_I32, 1, 0),
		GPU_OUT(struct rlx_k_scatter_nd, out, t, 12 * a.inner, 1e-6) };

	a.upd = gpu_alloc((size_t)(a.n * a.inner), t, t == RLX_U8 ? 0 : -3, 4, seed);
	a.idx = indices(a.n * 2, RLX_I64, 3, false, seed);
	if (bad)
		((int64_t *)(uintptr_t)a.idx)[0] = 3;
	a.out = gpu_alloc((size_t)(12 * a.inner), t, t == RLX_U8 ? 0 : -3, 4, seed);
	GPU_AGAINST_CPU(scatter_nd, a,
			(size_t)((a.inner + RLX_K_SCATTER_BLOCK - 1) / RLX_K_SCATTER_BLOCK),
			0, f, seed);
	CHECK_EQ(told, bad && a.live);
}

/* Of @n places that are @apart, how many are the busiest team's. */
static int64_t most_of_a_team(int64_t n, int64_t apart, int64_t teams)
{
	int64_t *count = calloc((size_t)teams, sizeof(*count)), most = 0, i, team;

	CHECK(count);
	for (i = 0; i < n; i++) {
		team = RLX_K_SCATTER_TEAM(i * apart, teams);
		CHECK(team >= 0 && team < teams);
		count[team]++;
		most = count[team] > most ? count[team] : most;
	}
	free(count);
	return most;
}

/* No block adds up what the frequent places get alone, neighbours or of one column. */
static void places_part(int64_t apart)
{
	static const int64_t teams[] = { 2, 88, 352, 1056 };
	unsigned int k;

	for (k = 0; k < sizeof(teams) / sizeof(teams[0]); k++)
		CHECKF(most_of_a_team(teams[k] / 2 + 1, apart, teams[k]) <= teams[k] / 8 + 2,
		       "%lld teams, places %lld apart: %lld of one", (long long)teams[k],
		       (long long)apart,
		       (long long)most_of_a_team(teams[k] / 2 + 1, apart, teams[k]));
}

TEST(scatter_nd_parts_places)
{
	int64_t apart;

	for (apart = 1; apart < 30000; apart++)
		places_part(apart);
	for (apart = 1; apart < (int64_t)1 << 50; apart *= 2)
		places_part(apart);
	CHECK(most_of_a_team(61, 1, 352) <= 2);		/* the bytes of a text */
}

TEST(scatter)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 16; i++) {
		one_scatter(0, i % 4 == 3, &seed);
		one_scatter(kc_pick(&seed, 64, 90), i % 4 == 3, &seed);
		one_scatter_nd(i % 4 == 3, false, &seed);
		one_scatter_nd(i % 4 == 3, true, &seed);
	}
}

TEST(iota_trilu_zero)
{
	static const int type[] = { RLX_F64, RLX_F32, RLX_F16, RLX_BF16,
				    RLX_I64, RLX_I32, RLX_U8 };
	uint64_t seed = rlx_test_seed();

	/* some results are ties of 16-bit floats, which must be decided as on the CPU */
	for (int i = 0; i < 7; i++) {
		int t = type[i];
		struct rlx_k_iota a = { .n = kc_pick(&seed, 1, 3000), .start = -3.3,
			.step = 0.37, .istart = 5, .istep = -3, .type = (uint8_t)t };
		struct gpu_field f[] = { GPU_OUT(struct rlx_k_iota, dst, t, a.n, 0) };

		a.dst = gpu_alloc((size_t)a.n, t, 0, 0, &seed);
		GPU_AGAINST_CPU(iota, a,
				(size_t)((a.n + RLX_K_IOTA_BLOCK - 1) / RLX_K_IOTA_BLOCK), 0,
				f, &seed);
	}
	for (int i = 0; i < 6; i++) {
		int t = type_of_size(1 << i % 4);
		struct rlx_k_trilu a = { .batch = 2, .rows = kc_pick(&seed, 1, 20),
			.cols = kc_pick(&seed, 1, 20), .k = kc_pick(&seed, -5, 5),
			.upper = i % 2, .size = (uint8_t)(1 << i % 4) };
		int64_t n = 2 * a.rows * a.cols;
		struct gpu_field f[] = { GPU_IN(struct rlx_k_trilu, src, t, n),
					 GPU_OUT(struct rlx_k_trilu, dst, t, n, 0) };
		struct rlx_k_zero z;
		struct gpu_field zf[] = { GPU_OUT(struct rlx_k_zero, dst, t, n, 0) };

		a.src = gpu_alloc((size_t)n, t, 0, 255, &seed);
		a.dst = gpu_alloc((size_t)n, t, 0, 0, &seed);
		GPU_AGAINST_CPU(trilu, a, (size_t)(a.batch * a.rows), 0, f, &seed);
		z.dst = gpu_alloc((size_t)n, t, 0, 255, &seed);
		GPU_AGAINST_CPU(zero, z, zf[0].bytes, 0, zf, &seed);
	}
}

TEST(index_copy)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_index_copy a = { .rank = 2, .dim = { 9, 13 }, .size = 4 };
	float fill = 7.5f;
	int64_t t0[9], t1[13];
	struct gpu_field f[] = { GPU_IN(struct rlx_k_index_copy, src, RLX_F32, 35),
		GPU_IN(struct rlx_k_index_copy, fill, RLX_F32, 1),
		GPU_IN(struct rlx_k_index_copy, table[0], RLX_I64, 9),
		GPU_IN(struct rlx_k_index_copy, table[1], RLX_I64, 13),
		GPU_OUT(struct rlx_k_index_copy, dst, RLX_F32, 9 * 13, 0) };

	for (int i = 0; i < 9; i++)
		t0[i] = i == 4 ? RLX_K_NO_INDEX : kc_pick(&seed, 0, 4) * 7;
	for (int i = 0; i < 13; i++)
		t1[i] = i > 10 ? RLX_K_NO_INDEX : kc_pick(&seed, 0, 6);
	a.table[0] = t0;
	a.table[1] = t1;
	a.fill = &fill;
	a.src = gpu_alloc(35, RLX_F32, -1, 1, &seed);
	a.dst = gpu_alloc(9 * 13, RLX_F32, 0, 0, &seed);
	GPU_AGAINST_CPU(index_copy, a, 9, 0, f, &seed);
}

TEST_MAIN()
