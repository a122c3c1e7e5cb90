// SPDX-License-Identifier: MIT
/* Copies, gathers and scatters against element by element loops. */
#include "kernels/move.h"
#include "selftests/kernels/kcheck.h"

static void fill_random(void *p, size_t n, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)rlx_test_rand(seed);
}

/* Coordinates of the element @at of a dense shape. */
static void coords(int64_t at, int rank, const int64_t *dim, int64_t *idx)
{
	for (int d = rank; d-- > 0; at /= dim[d])
		idx[d] = at % dim[d];
}

static void one_copy(const struct rlx_kernels *k, uint64_t *seed)
{
	static const uint8_t sizes[] = { 1, 2, 4, 8, 16, 4 };
	struct rlx_k_copy a = { .size = sizes[rlx_test_rand(seed) % 6] };
	int rank = (int)kc_pick(seed, 1, 4), order[4];
	int64_t n = 1, run = 1, src_off = 0, dst_run = 1;
	struct kc_buf src, dst;
	struct rlx_k_copy p;

	a.rank = rank;
	for (int d = 0; d < rank; d++) {
		int64_t most = kc_pick(seed, 0, 2) ? 40 : 4;

		a.dim[d] = kc_pick(seed, 1, most);
		n *= a.dim[d];
		order[d] = d;
	}
	for (int d = rank - 1; d > 0; d--) {
		int j = (int)kc_pick(seed, 0, d), t = order[d];

		order[d] = order[j];
		order[j] = t;
	}
	for (int i = rank; i-- > 0;) {
		int d = order[i];
		int64_t how = kc_pick(seed, 0, 9);

		a.src_stride[d] = how == 0 ? 0 : how == 1 ? -run : run;
		if (how == 1)
			src_off += run * (a.dim[d] - 1);
		if (how)
			run *= a.dim[d] + (how == 2);
	}
	for (int d = rank; d-- > 0; dst_run *= a.dim[d])
		a.dst_stride[d] = dst_run;
	src = kc_buf_new((size_t)run * a.size, a.size);
	dst = kc_buf_new((size_t)n * a.size, a.size);
	fill_random(src.p, src.size, seed);
	a.src = (char *)src.p + src_off * a.size;
	a.dst = dst.p;
	p = a;
	rlx_k_copy_plan(&p);
	kc_run(k->copy, &p, rlx_k_copy_units(&p), 0, seed);
	for (int64_t e = 0; e < n; e++) {
		int64_t idx[4], off = 0;

		coords(e, rank, a.dim, idx);
		for (int d = 0; d < rank; d++)
			off += idx[d] * a.src_stride[d];
		CHECKF(!memcmp((char *)dst.p + e * a.size,
			       (const char *)a.src + off * a.size, a.size),
		       "element %lld of %lld, mode %d", (long long)e,
		       (long long)n, p.mode);
	}
	kc_buf_free(&src);
	kc_buf_free(&dst);
}

TEST(strided_copies)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 400; t++)
			one_copy(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST(large_copies_split_into_pieces)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++) {
		struct kc_buf s = kc_buf_new(100001 * 4, 4);
		struct kc_buf d = kc_buf_new(100001 * 4, 4);
		struct rlx_k_copy a = { s.p, d.p, 1, { 100001 }, { 1 }, { 1 },
					.size = 4 };

		fill_random(s.p, s.size, &seed);
		rlx_k_copy_plan(&a);
		CHECK(rlx_k_copy_units(&a) > 10);
		kc_run(rlx_kernels_get((enum rlx_isa)l)->copy, &a,
		       rlx_k_copy_units(&a), 0, &seed);
		CHECK(!memcmp(s.p, d.p, s.size));
		kc_buf_free(&s);
		kc_buf_free(&d);
	}
}

/* Runs, single elements and fill in any mixture, of elements of any size. */
static void index_copy_one(uint64_t *seed, size_t size)
{
	enum { ROWS = 5, MOST = 120 };
	int64_t rows[ROWS], cols[MOST], n = (int64_t)kc_pick(seed, 1, MOST), i, j, at = 0;
	unsigned char src[MOST * ROWS * 8], dst[MOST * ROWS * 8 + 1], fill[8];

	for (i = 0; i < (int64_t)sizeof(src); i++)
		src[i] = (unsigned char)rlx_test_rand(seed);
	memset(fill, 0x5a, sizeof(fill));
	for (i = 0; i < ROWS; i++)
		rows[i] = kc_pick(seed, 0, 4) ? (int64_t)kc_pick(seed, 0, ROWS - 1) * MOST :
						RLX_K_NO_INDEX;
	for (i = 0; i < n; i++, at++) {
		if (kc_pick(seed, 0, 30) == 0 || at >= MOST)
			at = (int64_t)kc_pick(seed, 0, MOST - 1);
		cols[i] = kc_pick(seed, 0, 30) ? at : RLX_K_NO_INDEX;
	}
	for (int l = 0; l < kc_levels(); l++) {
		struct rlx_k_index_copy a = { src, fill, dst, 2, { ROWS, n }, { rows, cols },
					      (uint8_t)size };

		memset(dst, 0xee, sizeof(dst));
		rlx_kernels_get((enum rlx_isa)l)->index_copy(&a, 0, ROWS, NULL);
		for (i = 0; i < ROWS; i++)
			for (j = 0; j < n; j++) {
				bool none = rows[i] == RLX_K_NO_INDEX ||
					    cols[j] == RLX_K_NO_INDEX;
				const unsigned char *want = none ? fill :
					src + (size_t)(rows[i] + cols[j]) * size;

				CHECKF(!memcmp(dst + (size_t)(i * n + j) * size, want, size),
				       "level %d, size %zu, [%lld][%lld]", l, size,
				       (long long)i, (long long)j);
			}
		CHECK_EQ(dst[(size_t)(ROWS * n) * size], 0xee);
	}
}

TEST(index_copy_of_runs)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 400; i++)
		index_copy_one(&seed, (size_t)1 << i % 4);
}

TEST(index_copy_pads)
{
	static const int64_t rows[] = { RLX_K_NO_INDEX, 0, 3, 6, 3 };
	static const int64_t cols[] = { 2, 1, 0, 1, 2, RLX_K_NO_INDEX };

	for (int l = 0; l < kc_levels(); l++) {
		float src[9], dst[5][6], fill = -1;
		struct rlx_k_index_copy a = { src, &fill, dst, 2, { 5, 6 },
					      { rows, cols }, 4 };

		for (int i = 0; i < 9; i++)
			src[i] = (float)i;
		rlx_kernels_get((enum rlx_isa)l)->index_copy(&a, 0, 5, NULL);
		for (int r = 0; r < 5; r++)
			for (int c = 0; c < 6; c++)
				CHECK(dst[r][c] == (r == 0 || c == 5 ? -1 :
				      src[rows[r] + cols[c]]));
	}
}

TEST(trilu_keeps_its_half)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 40; t++) {
			int32_t s[2][7][9], d[2][7][9];
			bool upper = kc_pick(&seed, 0, 1);
			int64_t k = kc_pick(&seed, -10, 10);
			struct rlx_k_trilu a = { s, d, 2, 7, 9, k, upper, 4 };

			fill_random(s, sizeof(s), &seed);
			kc_run(rlx_kernels_get((enum rlx_isa)l)->trilu, &a, 14,
			       0, &seed);
			for (int i = 0; i < 126; i++) {
				int r = i / 9 % 7, c = i % 9;
				bool keep = upper ? c - r >= k : c - r <= k;

				CHECK(d[i / 63][r][c] ==
				      (keep ? s[i / 63][r][c] : 0));
			}
		}
}

/* n random indices of [-dim, dim), as type */
static void draw_idx(void *p, int64_t *as64, int64_t n, int64_t dim, int type,
		     uint64_t *seed)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t v = kc_pick(seed, type == RLX_U32 ? 0 : -dim,
				    dim - 1);

		as64[i] = v < 0 ? v + dim : v;
		if (type == RLX_I64)
			((int64_t *)p)[i] = v;
		else
			((int32_t *)p)[i] = (int32_t)v;
	}
}

static const uint8_t idx_types[] = { RLX_I64, RLX_I32, RLX_U32 };

static void one_gather(const struct rlx_kernels *k, uint64_t *seed)
{
	int64_t outer = kc_pick(seed, 1, 4), rows = kc_pick(seed, 1, 20);
	/* more than are looked up at once, too, and what is of a type's size */
	int64_t n = kc_pick(seed, 0, 7) ? kc_pick(seed, 1, 30) : kc_pick(seed, 300, 1300);
	int64_t inner = kc_pick(seed, 0, 1) ? 1 << kc_pick(seed, 0, 3) : kc_pick(seed, 1, 60);
	uint8_t type = idx_types[rlx_test_rand(seed) % 3];
	size_t is = rlx_k_type_size((enum rlx_dtype)type);
	struct kc_buf t = kc_buf_new((size_t)(outer * rows * inner), 1);
	struct kc_buf o = kc_buf_new((size_t)(outer * n * inner), 1);
	struct kc_buf x = kc_buf_new((size_t)n * is, is);
	int64_t idx[1300];
	int32_t bad = 0;
	struct rlx_k_gather a = { t.p, x.p, o.p, &bad, outer, rows, n, inner,
				  n, type };

	fill_random(t.p, t.size, seed);
	draw_idx(x.p, idx, n, rows, type, seed);
	kc_run(k->gather, &a, (size_t)(outer * n), 0, seed);
	for (int64_t u = 0; u < outer * n; u++)
		CHECK(!memcmp((char *)o.p + u * inner, (char *)t.p +
			      (u / n * rows + idx[u % n]) * inner,
			      (size_t)inner));
	CHECK(!bad);
	if (type == RLX_I64) {
		((int64_t *)x.p)[n - 1] = rlx_test_rand(seed) % 2 ? rows :
								    -rows - 1;
		kc_run(k->gather, &a, (size_t)(outer * n), 0, seed);
		CHECK(bad == 1);
		for (int64_t i = 0; i < outer * inner; i++)
			CHECK(((char *)o.p)[((i / inner + 1) * n - 1) * inner + i % inner] == 0);
	}
	kc_buf_free(&t);
	kc_buf_free(&o);
	kc_buf_free(&x);
}

TEST(gather_checks_indices)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 100; t++)
			one_gather(rlx_kernels_get((enum rlx_isa)l), &seed);
}

static void one_elements(const struct rlx_kernels *k, uint64_t *seed)
{
	int rank = (int)kc_pick(seed, 1, 3), axis = (int)kc_pick(seed, 0,
								 rank - 1);
	uint8_t itype = idx_types[rlx_test_rand(seed) % 2];
	uint8_t op = (uint8_t)kc_pick(seed, 0, 4);
	int64_t dim[3], data_dim[3], stride[3], n = 1, m = 1, idx[3];
	struct rlx_k_gather_elements g = { .rank = rank, .axis = axis,
					   .size = 4, .idx_type = itype };
	struct rlx_k_scatter_elements s = { .rank = rank, .axis = axis,
		.type = RLX_F32, .idx_type = itype, .op = op };
	int32_t bad = 0;
	int64_t *want_idx;
	float *data, *out, *upd, *want;
	void *ix;

	for (int d = rank; d-- > 0;) {
		g.dim[d] = s.dim[d] = dim[d] = kc_pick(seed, 1, 9);
		data_dim[d] = dim[d] + kc_pick(seed, 0, 3);
		g.data_stride[d] = s.out_stride[d] = stride[d] = m;
		n *= dim[d];
		m *= data_dim[d];
	}
	g.axis_dim = s.axis_dim = data_dim[axis];
	g.live = s.live = n;
	data = malloc((size_t)m * 4);
	want = malloc((size_t)m * 4);
	out = malloc((size_t)n * 4);
	upd = malloc((size_t)n * 4);
	ix = malloc((size_t)n * 8);
	want_idx = malloc((size_t)n * 8);
	for (int64_t i = 0; i < m; i++)
		data[i] = want[i] = (float)kc_pick(seed, -4, 4);
	for (int64_t i = 0; i < n; i++)
		upd[i] = (float)kc_pick(seed, -2, 2);
	draw_idx(ix, want_idx, n, data_dim[axis], itype, seed);
	g.data = data;
	g.idx = s.idx = ix;
	g.out = out;
	s.upd = upd;
	s.out = data;
	g.bad = s.bad = &bad;
	kc_run(k->gather_elements, &g, (size_t)(n / dim[rank - 1]), 0, seed);
	for (int64_t e = 0; e < n; e++) {
		int64_t off = 0;

		coords(e, rank, dim, idx);
		idx[axis] = want_idx[e];
		for (int d = 0; d < rank; d++)
			off += idx[d] * stride[d];
		CHECK(out[e] == data[off]);
		want[off] = op == RLX_K_SCATTER_NONE ? upd[e] :
			    op == RLX_K_SCATTER_ADD ? want[off] + upd[e] :
			    op == RLX_K_SCATTER_MUL ? want[off] * upd[e] :
			    op == RLX_K_SCATTER_MAX ? fmaxf(want[off], upd[e]) :
						    fminf(want[off], upd[e]);
	}
	kc_run(k->scatter_elements, &s, (size_t)(n / dim[axis]), 0, seed);
	for (int64_t i = 0; i < m; i++)
		CHECK(data[i] == want[i]);
	CHECK(!bad);
	free(data);
	free(want);
	free(out);
	free(upd);
	free(ix);
	free(want_idx);
}

TEST(gather_and_scatter_elements)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 200; t++)
			one_elements(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST(gather_nd_and_scatter_nd)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 60; t++) {
			int64_t inner = t % 3 ? kc_pick(&seed, 1, 9) : 2500;
			int64_t i64[40], *data, *want, *upd;
			int32_t bad = 0, ix[40];
			struct rlx_k_gather_nd g = { .bad = &bad, .batch = 2,
				.n = 10, .inner = inner * 8, .live = 20, .k = 2,
				.dim = { 3, 4 }, .idx_type = RLX_I32 };
			struct rlx_k_scatter_nd s = { .bad = &bad, .n = 20,
				.inner = inner, .live = 20, .k = 2, .dim = { 3, 4 },
				.type = RLX_I64, .idx_type = RLX_I32,
				.op = RLX_K_SCATTER_ADD };
			const struct rlx_kernels *k =
				rlx_kernels_get((enum rlx_isa)l);
			size_t units = (size_t)(inner + RLX_K_SCATTER_BLOCK -
						1) / RLX_K_SCATTER_BLOCK;

			data = malloc((size_t)inner * 24 * 8);
			want = malloc((size_t)inner * 24 * 8);
			upd = malloc((size_t)inner * 20 * 8);
			fill_random(data, (size_t)inner * 24 * 8, &seed);
			for (int64_t i = 0; i < 24 * inner; i++)
				data[i] >>= 8;
			for (int i = 0; i < 40; i++)
				draw_idx(&ix[i], &i64[i], 1, i % 2 ? 4 : 3,
					 RLX_I32, &seed);
			g.data = data;
			g.idx = s.idx = ix;
			g.out = upd;
			s.upd = upd;
			s.out = data;
			kc_run(k->gather_nd, &g, 20, 0, &seed);
			for (int64_t u = 0; u < 20; u++)
				CHECK(!memcmp(upd + u * inner, data +
					(u / 10 * 12 + i64[2 * u] * 4 +
					 i64[2 * u + 1]) * inner,
					(size_t)inner * 8));
			memcpy(want, data, (size_t)inner * 24 * 8);
			for (int64_t u = 0; u < 20 * inner; u++)
				want[(i64[2 * (u / inner)] * 4 +
				      i64[2 * (u / inner) + 1]) * inner +
				     u % inner] += upd[u] >> 8;
			for (int64_t u = 0; u < 20 * inner; u++)
				upd[u] >>= 8;
			kc_run(k->scatter_nd, &s, units, 0, &seed);
			CHECK(!memcmp(want, data, (size_t)inner * 24 * 8));
			CHECK(!bad);
			ix[3] = 4;
			kc_run(k->scatter_nd, &s, units, 0, &seed);
			CHECK(bad);
			free(data);
			free(want);
			free(upd);
		}
}

TEST(iota_counts)
{
	for (int l = 0; l < kc_levels(); l++) {
		float f[5000];
		int16_t h[5000];
		struct rlx_k_iota a = { f, 5000, 1.5, 0.25, 0, 0, RLX_F32 };
		struct rlx_k_iota b = { h, 5000, 0, 0, -7, 3, RLX_I16 };

		rlx_kernels_get((enum rlx_isa)l)->iota(&a, 0, 2, NULL);
		rlx_kernels_get((enum rlx_isa)l)->iota(&b, 0, 2, NULL);
		for (int i = 0; i < 5000; i++) {
			CHECK(f[i] == 1.5f + 0.25f * (float)i);
			CHECK(h[i] == -7 + 3 * i);
		}
	}
}

TEST_MAIN()
