// SPDX-License-Identifier: MIT
/* Where experts lie: placements, what they hold of a device's memory, and what runs count. */
#include <limits.h>

#include "rlx/blocks.h"
#include "rlx/moe.h"
#include "rlx/scheme.h"
#include "selftests/lib/expert_net.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* ---- which are worth a place ---- */

TEST(r015_target)
{
	const uint64_t hits[5] = { 10, 50, 30, 0, 50 }, none[5] = { 0 };
	const unsigned int want[3] = { 1, 4, 2 };
	unsigned int target[5];

	CHECK_EQ(rlx_moe_target(hits, 5, 3, target), 3);
	CHECK(!memcmp(target, want, sizeof(want)));
	CHECK_EQ(rlx_moe_target(hits, 5, UINT_MAX, target), 4);	/* one was not hit */
	CHECK(!memcmp(target, want, sizeof(want)) && target[3] == 0);
	CHECK_EQ(rlx_moe_target(hits, 5, 0, target), 0);
	CHECK_EQ(rlx_moe_target(none, 5, 3, target), 0);
	CHECK_EQ(rlx_moe_target(NULL, 0, 3, target), 0);
}

TEST(r015_refresh)
{
	bool two[8] = { 1, 1 }, four[8] = { 1, 1, 1, 1 }, fewer[4] = { 0, 1 };
	unsigned int in, out, i, n;

	rlx_moe_refresh(two, 8, (unsigned int[]){ 6, 7 }, 2, &in, &out);
	CHECK(in == 2 && out == 2);
	for (i = 0; i < 8; i++)
		CHECK_EQ(two[i], i >= 6);
	rlx_moe_refresh(four, 8, (unsigned int[]){ 2, 3, 4, 5 }, 4, &in, &out);
	CHECK(in == 2 && out == 2);
	for (i = n = 0; i < 8; i++, n += four[i - 1])
		CHECK_EQ(four[i], i >= 2 && i < 6);
	CHECK_EQ(n, 4);
	rlx_moe_refresh(four, 8, (unsigned int[]){ 2, 3 }, 2, &in, &out);	/* the rest stays */
	CHECK(!in && !out && four[4] && four[5]);
	rlx_moe_refresh(fewer, 4, (unsigned int[]){ 2, 9, 3, 1 }, 4, &in, NULL);
	CHECK(in == 2 && !fewer[0] && fewer[1] && fewer[2] && fewer[3]);
	rlx_moe_refresh(fewer, 4, NULL, 0, NULL, NULL);
}

TEST(r015_budget)
{
	CHECK_EQ(rlx_moe_budget(1000, 100, 30, 3), 10);
	CHECK_EQ(rlx_moe_budget(1000, 101, 30, 3), 9);
	CHECK_EQ(rlx_moe_budget(100, 100, 1, 1), 0);
	CHECK_EQ(rlx_moe_budget(100, UINT64_MAX, 1, 1), 0);
	CHECK_EQ(rlx_moe_budget(UINT64_MAX, 0, UINT64_MAX, UINT_MAX), 0);
	CHECK_EQ(rlx_moe_budget(UINT64_MAX, 0, 1, 1), UINT_MAX);
	CHECK_EQ(rlx_moe_budget(1, 0, 0, 1), UINT_MAX);
	CHECK_EQ(rlx_moe_budget(1, 0, 1, 0), UINT_MAX);
}

/* ---- layers that are given their routes ---- */

static bool is_gpu(const char *device)
{
	return device && !strncmp(device, "cuda", 4);
}

static struct rlx_moe_stats taken(struct rlx_session *s, int layer)
{
	struct rlx_moe_stats t;

	CHECKF(!rlx_moe_stats(s, layer, &t), "%s", rlx_session_error(s)->text);
	return t;
}

/*
 * 4 experts, one for each row: the same bits for masks 1111, 0011, 0000, and rows on device and
 * host 4/0, 2/2, 0/4; in a device whose memory is the host's all are where they are multiplied.
 */
TEST(r011_bits_and_counts)
{
	static const bool mask[3][4] = { { 1, 1, 1, 1 }, { 0, 0, 1, 1 }, { 0, 0, 0, 0 } };
	static const unsigned int rows[3] = { 4, 2, 0 };
	const int32_t routes[4] = { 0, 1, 2, 3 };
	struct expert_net m = { .layers = 1, .rows = 4, .width = 24, .experts = 4, .real = RLX_F32,
			   .flags = RLX_COMPILE_PLACE };
	float x[4 * 24], y[4][4 * 24], want[4 * 24];
	uint64_t seed = rlx_test_seed();
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i, k;
	struct rlx_session *s;

	for (i = 0; i < 4 * 24; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	expert_net_draw(&m, &seed);
	expert_net_wanted(&m, x, routes, want);
	for (d = 2; d < 2 * n; d++) {
		bool gpu = is_gpu(device[d / 2]);

		if (!gpu && strcmp(device[d / 2], "cpu"))
			continue;
		m.constant = d % 2;
		s = expert_net_session(&m, device[d / 2]);
		for (k = 0; k < 3; k++) {
			struct rlx_moe_stats t;

			CHECKF(!rlx_moe_place(s, k % 2 ? 0 : -1, mask[k], 4), "%s",
			       rlx_session_error(s)->text);
			expert_net_run(s, &m, x, routes, y[k]);
			CHECK(!memcmp(y[k], y[0], sizeof(y[0])));
			t = taken(s, 0);
			CHECKF(t.rows_device == (gpu ? rows[k] : 4) &&
			       t.rows_host == (gpu ? 4 - rows[k] : 0), "%s, %u: %d %d",
			       device[d / 2], k, (int)t.rows_device, (int)t.rows_host);
			CHECK(t.calls_device == t.rows_device && t.calls_host == t.rows_host);
			CHECK(t.streamed == t.rows_host &&
			      t.streamed_bytes == t.rows_host * 24 * 24 * 4);
			CHECK(t.promoted == (gpu && !k ? 4 : 0) && t.demoted == (gpu && k ? 2 : 0));
			t = taken(s, -1);
			CHECK(!t.rows_device && !t.rows_host && !t.streamed);
		}
		for (i = 0; i < 4 * 24; i++)
			CHECKF(fabs((double)(y[0][i] - want[i])) < 1e-5, "%s: [%u] %g, not %g",
			       device[d / 2], i, (double)y[0][i], (double)want[i]);
		CHECK_EQ(rlx_moe_place(s, 0, (bool[5]){ 0 }, 5), RLX_ERANGE);
		CHECKF(strstr(rlx_session_error(s)->text, "has 4"), "%s",
		       rlx_session_error(s)->text);
		rlx_session_free(s);
	}
	free(m.w);
}

/* Layer 0 with mask 0001, layer 1 with 0010; routes [0, 1] in both: (1, 1) and (1, 1). */
TEST(r012_by_layer)
{
	const int32_t routes[4] = { 0, 1, 0, 1 };
	struct expert_net m = { .layers = 2, .rows = 2, .width = 8, .experts = 4, .real = RLX_F32,
			   .flags = RLX_COMPILE_PLACE };
	float x[2 * 8], y[2 * 8], all[2 * 8];
	uint64_t seed = rlx_test_seed(), hits[4];
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i;
	struct rlx_moe_layer l;
	struct rlx_moe_stats t;
	struct rlx_session *s, *c;

	for (i = 0; i < 2 * 8; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	expert_net_draw(&m, &seed);
	for (d = 2; d < n; d++) {
		bool gpu = is_gpu(device[d]);

		s = expert_net_session(&m, device[d]);
		CHECK_EQ(rlx_moe_layers(s), 2);
		CHECK(!rlx_moe_layer(s, 1, &l));
		CHECK(!strcmp(l.name, "w1") && l.experts == 4 && l.products == 1 &&
		      l.resident == 4 && l.expert_bytes == 8 * 8 * 4);
		expert_net_run(s, &m, x, routes, all);
		t = taken(s, -1);
		CHECK(t.rows_device == 4 && !t.rows_host && t.promoted == (gpu ? 8 : 0));
		/* entries that are missing count as resident */
		CHECK(!rlx_moe_place(s, 0, (bool[4]){ 1, 0, 0, 0 }, 4));
		CHECK(!rlx_moe_place(s, 1, (bool[1]){ 0 }, 1));
		CHECK(!rlx_moe_layer(s, 1, &l) && l.resident == 3);
		CHECK(!rlx_session_clone(s, &c, NULL));
		CHECK(!rlx_moe_layer(c, 0, &l) && l.resident == 1);
		for (i = 0; i < 2; i++) {
			expert_net_run(i ? c : s, &m, x, routes, y);
			CHECK(!memcmp(y, all, sizeof(y)));
			for (int k = 0; k < 2; k++) {
				t = taken(i ? c : s, k);
				CHECKF(t.rows_device == (gpu ? 1 : 2) && t.rows_host == gpu,
				       "layer %d: %d %d", k, (int)t.rows_device, (int)t.rows_host);
			}
		}
		CHECK(!rlx_moe_hits(s, 1, hits, 4));
		CHECK(hits[0] == 2 && hits[1] == 2 && !hits[2] && !hits[3]);
		CHECK(!rlx_moe_hits(s, 1, hits, 4) && !hits[0]);
		CHECK(!rlx_moe_place(s, -1, NULL, 0));
		CHECK(!rlx_moe_layer(s, 0, &l) && l.resident == 4);
		rlx_session_free(c);
		rlx_session_free(s);
	}
	free(m.w);
}

/* ---- drawn ---- */

/* Rows of @m by whether their expert is in @resident: what one layer's counts are to be. */
static void count_rows(const struct expert_net *m, const int32_t *routes, const bool *resident,
		       int64_t rows, struct rlx_moe_stats *t)
{
	bool hit[16] = { false };

	*t = (struct rlx_moe_stats){ 0 };
	for (int64_t i = 0; i < rows; i++) {
		int64_t e = routes[i] + (routes[i] < 0 ? m->experts : 0);

		*(resident[e] ? &t->rows_device : &t->rows_host) += 1;
		*(resident[e] ? &t->calls_device : &t->calls_host) += !hit[e];
		hit[e] = true;
	}
}

static void draw_run(struct expert_net *m, uint64_t *seed, float *x, int32_t *routes)
{
	for (int64_t i = 0; i < m->rows * m->width; i++)	/* exact in f16 and bf16 */
		x[i] = (float)((int64_t)(rlx_test_rand(seed) % 65) - 32) / 32;
	for (int64_t i = 0; i < m->layers * m->rows; i++)
		routes[i] = (int32_t)((int64_t)(rlx_test_rand(seed) % (uint64_t)(2 * m->experts)) -
				      m->experts);
}

/* Placements, weights and extents that change from run to run. */
static void drawn(const char *device, struct expert_net *m, uint64_t *seed)
{
	struct rlx_session *all = expert_net_session(m, device), *s = expert_net_session(m, device);
	static float x[64 * 64], y[64 * 64], same[64 * 64], want[64 * 64];
	static int32_t routes[2 * 64];
	bool gpu = is_gpu(device), resident[2][16];
	struct rlx_moe_stats t, is;
	int64_t rows, i;

	memset(resident, true, sizeof(resident));
	for (int run = 0; run < 6; run++) {
		draw_run(m, seed, x, routes);
		if (!m->constant && run == 3) {
			expert_net_draw(m, seed);
			CHECK(!expert_net_fill(s, m) && !expert_net_fill(all, m));
		}
		for (int l = 0; l < m->layers; l++)
			for (i = 0; i < m->experts; i++)
				resident[l][i] = rlx_test_rand(seed) % 3;
		for (int l = 0; l < m->layers; l++)
			CHECKF(!rlx_moe_place(s, l, resident[l], (unsigned int)m->experts), "%s",
			       rlx_session_error(s)->text);
		rows = run % 3 ? m->rows : 1 + (int64_t)(rlx_test_rand(seed) % (uint64_t)m->rows);
		CHECK(!rlx_session_extent(s, rows, m->rows) &&
		      !rlx_session_extent(all, rows, m->rows));
		expert_net_run(s, m, x, routes, y);
		expert_net_run(all, m, x, routes, same);
		expert_net_wanted(m, x, routes, want);
		CHECK(!memcmp(y, same, (size_t)(rows * m->width) * sizeof(*y)));
		for (i = 0; i < rows * m->width; i++)
			CHECKF(fabs((double)(y[i] - want[i])) < (m->real == RLX_BF16 ? 0.2 :
			       m->real == RLX_F16 ? 0.03 : 1e-4), "%s, run %d: [%d] %g, not %g",
			       device, run, (int)i, (double)y[i], (double)want[i]);
		for (int l = 0; l < m->layers; l++) {
			memset(resident[l], true, gpu ? 0 : sizeof(resident[l]));
			count_rows(m, routes + l * m->rows, resident[l], rows, &t);
			is = taken(s, l);
			CHECKF(is.rows_device == t.rows_device && is.rows_host == t.rows_host &&
			       is.calls_device == t.calls_device && is.calls_host == t.calls_host &&
			       is.streamed == t.calls_host, "%s, layer %d: %d %d, not %d %d",
			       device, l, (int)is.rows_device, (int)is.rows_host,
			       (int)t.rows_device, (int)t.rows_host);
		}
	}
	rlx_session_free(s);
	rlx_session_free(all);
}

TEST(r011_drawn)
{
	static const enum rlx_dtype real[] = { RLX_F32, RLX_F64, RLX_F16, RLX_BF16 };
	uint64_t seed = rlx_test_seed();
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i;

	for (d = 2; d < n; d++)
		for (i = 0; i < 8; i++) {
			struct expert_net m = {
				.layers = 2, .rows = i % 3 ? 64 : 5, .experts = 1 + i * 2,
				.width = i % 2 ? 24 : 17, .real = real[i / 2], .constant = i % 2,
				.flags = RLX_COMPILE_PLACE,
			};

			expert_net_draw(&m, &seed);
			drawn(device[d], &m, &seed);
			free(m.w);
		}
}

/* ---- layers of several products ---- */

/* A gated network of 4 experts, 2 for each of 6 rows: three products, one of them counts. */
TEST(r015_once_a_layer)
{
	enum { ROWS = 6, DIM = 8, N = 4 };
	struct rlx_type tx = rlx_type(RLX_F32, ROWS, DIM), tw = rlx_type(RLX_F32, N, DIM, DIM);
	float w[3 * N * DIM * DIM], router[DIM * N], x[ROWS * DIM], y[2][ROWS * DIM];
	uint64_t seed = rlx_test_seed(), hits[N], sum;
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i, k;
	struct rlx_moe_layer l;
	struct rlx_moe_stats t;

	for (i = 0; i < 3 * N * DIM * DIM; i++)
		w[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < DIM * N; i++)
		router[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < ROWS * DIM; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (d = 2; d < n; d++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = device[d],
					      .flags = RLX_COMPILE_PLACE };
		struct rlx_graph *g = rlx_graph_new("moe");
		struct rlx_moe_block m = { .size = sizeof(m), .experts.size = sizeof(m.experts),
					   .chosen = 2 };
		bool gpu = is_gpu(device[d]);
		struct rlx_session *s;

		m.router = (struct rlx_linear){
			.w = rlx_constant(g, rlx_type(RLX_F32, DIM, N), router), .in_out = true };
		m.experts.up = (struct rlx_linear){ .w = rlx_param(g, "up", tw), .in_out = true };
		m.experts.gate = (struct rlx_linear){ .w = rlx_param(g, "gate", tw),
						      .in_out = true, .act = RLX_ACT_SILU };
		m.experts.down = (struct rlx_linear){ .w = rlx_param(g, "down", tw),
						      .in_out = true };
		rlx_output(g, "y", rlx_block_moe(g, rlx_input(g, "x", tx), &m, RLX_NONE));
		s = rig_session(g, &o);
		CHECK(!rlx_session_set(s, RLX_IO_PARAM, "up", tw, w));
		CHECK(!rlx_session_set(s, RLX_IO_PARAM, "gate", tw, w + N * DIM * DIM));
		CHECK(!rlx_session_set(s, RLX_IO_PARAM, "down", tw, w + 2 * N * DIM * DIM));
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", tx, x));
		CHECK(rlx_moe_layers(s) == 1 && !rlx_moe_layer(s, 0, &l));
		CHECK(l.products == 3 && l.experts == N && l.expert_bytes == 3 * DIM * DIM * 4);
		for (k = 0; k < 2; k++) {
			CHECKF(!rlx_moe_place(s, 0, (bool[N]){ 0 }, k ? N : 0), "%s",
			       rlx_session_error(s)->text);
			CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
			CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", tx, y[k]));
			t = taken(s, 0);
			CHECKF(t.rows_device == (gpu && k ? 0 : 2 * ROWS) &&
			       t.rows_host == (gpu && k ? 2 * ROWS : 0), "%d and %d rows",
			       (int)t.rows_device, (int)t.rows_host);
			CHECK(t.calls_device + t.calls_host <= N);
			CHECK(t.streamed == 3 * t.calls_host);
			CHECK(t.promoted == (gpu && !k ? N : 0) && t.demoted == (gpu && k ? N : 0));
		}
		CHECK(!memcmp(y[0], y[1], sizeof(y[0])));
		CHECK(!rlx_moe_hits(s, 0, hits, N));
		for (sum = i = 0; i < N; i++)
			sum += hits[i];
		CHECK_EQ(sum, 2 * 2 * ROWS);
		rlx_session_free(s);
	}
}

static void refuses(struct rlx_session *s, enum rlx_status want, const char *text,
		    enum rlx_status got)
{
	CHECKF(got == want && strstr(rlx_session_error(s)->text, text), "%d, not %d: %s", got,
	       want, rlx_session_error(s)->text);
}

/* ---- packed ---- */

enum { PACKED = 8, DEEP = 256, TOKENS = 37 };

/* Any codes, by scales of about 1 / 1000, which lie in bytes 0 and 1, and of Q4_K 2 and 3 too. */
static void draw_blocks(uint8_t *w, int scheme, size_t bytes, uint64_t *seed)
{
	const size_t size = (size_t)rlx_block_bytes(scheme);

	for (size_t i = 0; i < bytes; i++) {
		w[i] = (uint8_t)(rlx_test_rand(seed) >> 24);
		if (i % size == 1 || (scheme == RLX_SCHEME_Q4_K && i % size == 3))
			w[i] = (uint8_t)((w[i] & 0x83) | 0x14);
	}
}

/* x w[route]' twice, by blocks that are a param and a constant. */
static struct rlx_session *packed_session(const char *device, int scheme, enum rlx_dtype real,
					  const uint8_t *w, uint32_t flags)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .flags = flags };
	int64_t line = DEEP / rlx_block_elements(scheme) * rlx_block_bytes(scheme);
	struct rlx_type tw = rlx_type(RLX_U8, PACKED, DEEP, line);
	struct rlx_graph *g = rlx_graph_new("packed");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, TOKENS, DEEP));
	rlx_value route = rlx_input(g, "route", rlx_type(RLX_I64, TOKENS));
	struct rlx_session *s;

	x = rlx_emit(g, dequant_grouped_matmul, .x = rlx_emit(g, cast, .x = x, .to = real),
		     .w = rlx_param(g, "w", tw), .idx = route, .scheme = scheme);
	x = rlx_emit(g, dequant_grouped_matmul, .x = x, .idx = route, .scheme = scheme,
		     .w = rlx_constant(g, tw, w + PACKED * DEEP * line));
	rlx_output(g, "y", rlx_emit(g, cast, .x = x, .to = RLX_F32));
	s = rig_session(g, &o);
	CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", tw, w));
	return s;
}

static void run_packed(struct rlx_session *s, const float *x, const int64_t *route, float *y)
{
	struct rlx_type t = rlx_type(RLX_F32, TOKENS, DEEP);
	struct rlx_buf out = rlx_session_buf(s, RLX_IO_OUTPUT, "y");

	memset(rlx_buf_ptr(out), 0xa5, out.bytes);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, x));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "route", rlx_type(RLX_I64, TOKENS), route));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y));
}

/* On every device as by doubles, and the same bits wherever they lie, packed. */
static void packed(const char *device, int scheme, uint64_t *seed)
{
	static float x[TOKENS * DEEP], y[3][TOKENS * DEEP], want[TOKENS * DEEP];
	uint64_t each = (uint64_t)(DEEP / rlx_block_elements(scheme)) * DEEP *
			(uint64_t)rlx_block_bytes(scheme);
	uint8_t *w = malloc(2 * PACKED * each);
	const bool some[PACKED] = { 1, 0, 0, 1, 0, 1 };
	struct rlx_session *s, *ref;
	bool gpu = is_gpu(device);
	int64_t route[TOKENS], i;
	struct rlx_moe_layer l;
	struct rlx_moe_stats t;
	double top = 0;

	draw_blocks(w, scheme, 2 * PACKED * each, seed);
	for (i = 0; i < TOKENS * DEEP; i++)
		x[i] = (float)((int64_t)(rlx_test_rand(seed) % 65) - 32) / 32;
	for (i = 0; i < TOKENS; i++)
		route[i] = (int64_t)(rlx_test_rand(seed) % (2 * PACKED)) - PACKED;
	s = packed_session(device, scheme, RLX_F32, w, RLX_COMPILE_PLACE | RLX_COMPILE_NATIVE);
	ref = packed_session("ref", scheme, RLX_F32, w, 0);
	run_packed(ref, x, route, want);
	CHECK(rlx_moe_layers(s) == 1 && !rlx_moe_layer(s, 0, &l));
	CHECKF(l.products == 2 && l.experts == PACKED && l.expert_bytes == 2 * each,
	       "%s, scheme %d: %u products, %u experts of %llu bytes", device, scheme, l.products,
	       l.experts, (unsigned long long)l.expert_bytes);
	for (int k = 0; k < 3; k++) {
		CHECKF(!rlx_moe_place(s, 0, k == 1 ? some : (bool[PACKED]){ 0 },
				      k ? PACKED : 0), "%s", rlx_session_error(s)->text);
		run_packed(s, x, route, y[k]);
		CHECK(!memcmp(y[0], y[k], sizeof(y[0])));
		t = taken(s, 0);
		CHECKF(t.rows_device + t.rows_host == TOKENS &&
		       (k != 2 || !gpu || !t.rows_device) && t.streamed == 2 * t.calls_host &&
		       t.streamed_bytes == t.streamed * each, "%d and %d rows",
		       (int)t.rows_device, (int)t.rows_host);
		CHECK(!gpu || k != 1 || t.demoted == 5);
	}
	for (i = 0; i < TOKENS * DEEP; i++)
		top = fabs((double)want[i]) > top ? fabs((double)want[i]) : top;
	for (i = 0; i < TOKENS * DEEP; i++)
		CHECKF(fabs((double)(y[0][i] - want[i])) <= 1e-5 * top,
		       "%s, scheme %d: [%d] %g, not %g", device, scheme, (int)i, (double)y[0][i],
		       (double)want[i]);
	rlx_session_free(s);
	rlx_session_free(ref);
	free(w);
}

TEST(r198_packed_experts)
{
	static const int scheme[] = { RLX_SCHEME_Q4_K, RLX_SCHEME_Q8_0, RLX_SCHEME_Q4_0 };
	uint64_t seed = rlx_test_seed();
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i;

	for (d = 2; d < n; d++)
		for (i = 0; i < 3; i++)
			packed(device[d], scheme[i], &seed);
}

/* Rows of less than f32: a GPU has all experts as floats, and says that it must. */
TEST(r198_packed_experts_of_bf16)
{
	static uint8_t w[2 * PACKED * DEEP * DEEP / 32 * 34];
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d;
	bool none[PACKED] = { false };
	struct rlx_session *s;

	for (d = 2; d < n; d++) {
		s = packed_session(device[d], RLX_SCHEME_Q8_0, RLX_BF16, w, RLX_COMPILE_PLACE);
		if (is_gpu(device[d]))
			refuses(s, RLX_ENOSUP, "layer 0", rlx_moe_place(s, 0, none, PACKED));
		else
			CHECK(!rlx_moe_place(s, 0, none, PACKED));
		rlx_session_free(s);
	}
}

/* ---- what is refused ---- */

TEST(r011_refused)
{
	struct expert_net m = { .layers = 2, .rows = 3, .width = 4, .experts = 3,
				.real = RLX_F32 };
	const int32_t bad[6] = { 0, 1, 2, 0, 3, 1 }, good[6] = { 0, 1, 2, 0, -3, 1 };
	float x[12] = { 1 }, y[12], want[12];
	struct rlx_session *s, *plain;
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i;
	struct rlx_moe_layer l;
	struct rlx_moe_stats t = { .promoted = 77 };
	uint64_t hits[4] = { 77, 77, 77, 77 }, seed = rlx_test_seed();
	bool none[4] = { false };

	expert_net_draw(&m, &seed);
	expert_net_wanted(&m, x, good, want);
	CHECK(!rlx_moe_layers(NULL) && rlx_moe_layer(NULL, 0, &l) == RLX_EINVAL &&
	      rlx_moe_place(NULL, 0, none, 1) == RLX_EINVAL &&
	      rlx_moe_stats(NULL, 0, &t) == RLX_EINVAL &&
	      rlx_moe_hits(NULL, 0, hits, 3) == RLX_EINVAL);
	for (d = 2; d < n; d++) {
		l.experts = 77;
		m.flags = 0;
		plain = expert_net_session(&m, device[d]);
		CHECK(!rlx_moe_layers(plain));
		refuses(plain, RLX_EINVAL, "RLX_COMPILE_PLACE", rlx_moe_place(plain, -1, none, 1));
		refuses(plain, RLX_EINVAL, "RLX_COMPILE_PLACE", rlx_moe_stats(plain, 0, &t));
		rlx_session_free(plain);
		m.flags = RLX_COMPILE_PLACE;
		s = expert_net_session(&m, device[d]);
		refuses(s, RLX_ERANGE, "layer 2 of 2", rlx_moe_place(s, 2, none, 1));
		refuses(s, RLX_ERANGE, "layer -2", rlx_moe_place(s, -2, none, 1));
		refuses(s, RLX_ERANGE, "layer 4294967295", rlx_moe_layer(s, UINT_MAX, &l));
		refuses(s, RLX_ERANGE, "layer 4294967295", rlx_moe_hits(s, UINT_MAX, hits, 3));
		refuses(s, RLX_ERANGE, "4 are placed, layer 0 (w0) has 3",
			rlx_moe_place(s, -1, none, 4));
		refuses(s, RLX_EINVAL, "none of the 2", rlx_moe_place(s, 0, NULL, 2));
		refuses(s, RLX_EINVAL, "no place", rlx_moe_layer(s, 0, NULL));
		refuses(s, RLX_EINVAL, "no place", rlx_moe_stats(s, 0, NULL));
		refuses(s, RLX_EINVAL, "no place", rlx_moe_hits(s, 0, NULL, 3));
		refuses(s, RLX_ERANGE, "room for the counts of 2", rlx_moe_hits(s, 0, hits, 2));
		CHECK(l.experts == 77 && t.promoted == 77 && hits[0] == 77);
		CHECK(!rlx_moe_layer(s, 0, &l) && l.resident == 3);
		/* a row whose expert there is not */
		for (i = 0; i < 2; i++) {
			CHECK(!rlx_moe_place(s, -1, none, i ? 3 : 0));
			CHECK_EQ(expert_net_try(s, &m, x, bad, y), RLX_ERANGE);
			CHECKF(strstr(rlx_session_error(s)->text, "grouped_matmul"), "%s",
			       rlx_session_error(s)->text);
			expert_net_run(s, &m, x, good, y);
			for (int k = 0; k < 12; k++)
				CHECK(fabs((double)(y[k] - want[k])) < 1e-5);
		}
		rlx_session_free(s);
	}
	free(m.w);
}

/* Experts that a step makes cannot be left out, those that another reads neither. */
TEST(r011_not_to_be_placed)
{
	struct rlx_type tw = rlx_type(RLX_F32, 2, 4, 4);
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i;
	bool none[2] = { false };
	float data[32];
	rlx_value x, w;

	for (i = 0; i < 32; i++)
		data[i] = (float)i;
	for (d = 1; d < n; d++)
		for (i = 0; i < 2; i++) {
			struct rlx_compile_opts o = { .size = sizeof(o), .device = device[d],
						      .flags = RLX_COMPILE_PLACE };
			struct rlx_graph *g = rlx_graph_new("made");
			struct rlx_session *s;
			struct rlx_buf b;

			x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 4));
			w = rlx_param(g, "w", tw);
			if (i)
				rlx_output(g, "z", rlx_emit(g, exp, .x = w));
			else
				w = rlx_emit(g, exp, .x = w);
			rlx_output(g, "y", rlx_emit(g, grouped_matmul, .x = x, .w = w,
				   .idx = rlx_input(g, "i", rlx_type(RLX_I32, 2))));
			s = rig_session(g, &o);
			CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", tw, data));
			CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2, 4),
					       data));
			CHECK(!rlx_session_set(s, RLX_IO_INPUT, "i", rlx_type(RLX_I32, 2),
					       (int32_t[]){ 1, 0 }));
			if (!strcmp(device[d], "cpu")) {
				CHECK(!rlx_moe_place(s, 0, none, 2));
			} else {
				refuses(s, RLX_ENOSUP, "experts of layer 0",
					rlx_moe_place(s, 0, none, 2));
				CHECK(strstr(rlx_session_error(s)->file, "ops/moe.c"));
			}
			CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
			b = rlx_session_bound(s, RLX_IO_OUTPUT, "y");
			CHECK(((float *)rlx_buf_ptr(b))[0] > 0);
			rlx_session_free(s);
		}
}

TEST_MAIN()
