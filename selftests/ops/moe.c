// SPDX-License-Identifier: MIT
/* Where experts lie: placements, what they hold of a device's memory, and what runs count. */
#include <dlfcn.h>
#include <limits.h>

#include "backends/gpu/gpu.h"
#include "rlx/blocks.h"
#include "rlx/moe.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 4096 };

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

/* @layers products x w[idx] in a row, idx of each an input, w a param or a constant. */
struct model {
	int		 layers;
	int64_t		 rows, width, experts;
	enum rlx_dtype	 real;
	bool		 constant;
	uint32_t	 flags;
	float		*w;		/* layers x experts x width x width */
};

static int64_t count(const struct model *m)
{
	return m->experts * m->width * m->width;
}

static void draw(struct model *m, uint64_t *seed)
{
	m->w = malloc((size_t)(m->layers * count(m)) * sizeof(*m->w));
	for (int64_t i = 0; i < m->layers * count(m); i++)	/* exact in f16 and bf16 */
		m->w[i] = (float)((int64_t)(rlx_test_rand(seed) % 129) - 64) / 64;
}

static struct rlx_session *session_of(const struct model *m, const char *device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device,
				      .flags = m->flags };
	struct rlx_type tw = rlx_type(RLX_F32, m->experts, m->width, m->width);
	struct rlx_graph *g = rlx_graph_new("experts");
	rlx_value x = rlx_input(g, "x", rlx_type(m->real, m->rows, m->width)), w;
	struct rlx_session *s;
	char name[32];

	for (int l = 0; l < m->layers; l++) {
		snprintf(name, sizeof(name), "w%d", l);
		tw.dtype = m->constant ? RLX_F32 : m->real;
		w = m->constant ? rlx_constant(g, tw, m->w + l * count(m)) :
		    rlx_param(g, name, tw);
		w = m->constant ? rlx_emit(g, cast, .x = w, .to = m->real) : w;
		snprintf(name, sizeof(name), "route%d", l);
		x = rlx_emit(g, grouped_matmul, .x = x, .w = w,
			     .idx = rlx_input(g, name, rlx_type(RLX_I32, m->rows)));
	}
	rlx_output(g, "y", rlx_emit(g, cast, .x = x, .to = RLX_F32));
	s = rig_session(g, &o);
	for (int l = 0; l < m->layers && !m->constant; l++) {
		snprintf(name, sizeof(name), "w%d", l);
		tw.dtype = RLX_F32;
		CHECKF(!rlx_session_set(s, RLX_IO_PARAM, name, tw, m->w + l * count(m)), "%s",
		       rlx_session_error(s)->text);
	}
	return s;
}

/* Runs it with @routes, layer by layer. */
static enum rlx_status run(struct rlx_session *s, const struct model *m, const float *x,
			   const int32_t *routes, float *y)
{
	struct rlx_type t = rlx_type(RLX_F32, m->rows, m->width);
	struct rlx_buf out = rlx_session_buf(s, RLX_IO_OUTPUT, "y");
	enum rlx_status st;
	char name[32];

	memset(rlx_buf_ptr(out), 0xa5, out.bytes);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, x));
	for (int l = 0; l < m->layers; l++) {
		snprintf(name, sizeof(name), "route%d", l);
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, name, rlx_type(RLX_I32, m->rows),
				       routes + l * m->rows));
	}
	st = rlx_session_run(s);
	if (!st)
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y));
	return st;
}

static void runs(struct rlx_session *s, const struct model *m, const float *x,
		 const int32_t *routes, float *y)
{
	CHECKF(!run(s, m, x, routes, y), "%s", rlx_session_error(s)->text);
}

/* In double, each layer's result rounded to f32. */
static void wanted(const struct model *m, const float *x, const int32_t *routes, float *y)
{
	float in[MOST];
	int64_t e, i, j, k;
	double sum;

	memcpy(y, x, (size_t)(m->rows * m->width) * sizeof(*y));
	for (int l = 0; l < m->layers; l++) {
		memcpy(in, y, (size_t)(m->rows * m->width) * sizeof(*y));
		for (i = 0; i < m->rows; i++) {
			e = routes[l * m->rows + i];
			e += e < 0 ? m->experts : 0;
			for (j = 0; j < m->width; j++) {
				for (sum = k = 0; k < m->width; k++)
					sum += (double)in[i * m->width + k] *
					       (double)m->w[l * count(m) + (e * m->width + k) *
							    m->width + j];
				y[i * m->width + j] = (float)sum;
			}
		}
	}
}

static bool is_gpu(const char *device)
{
	return device && !strncmp(device, "cuda", 4);
}

/* The bits of @mask, as the contract writes them, the last one expert 0's; on the host all. */
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
	struct model m = { .layers = 1, .rows = 4, .width = 24, .experts = 4, .real = RLX_F32,
			   .flags = RLX_COMPILE_PLACE };
	float x[4 * 24], y[4][4 * 24], want[4 * 24];
	uint64_t seed = rlx_test_seed();
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i, k;
	struct rlx_session *s;

	for (i = 0; i < 4 * 24; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	draw(&m, &seed);
	wanted(&m, x, routes, want);
	for (d = 2; d < 2 * n; d++) {
		bool gpu = is_gpu(device[d / 2]);

		if (!gpu && strcmp(device[d / 2], "cpu"))
			continue;
		m.constant = d % 2;
		s = session_of(&m, device[d / 2]);
		for (k = 0; k < 3; k++) {
			struct rlx_moe_stats t;

			CHECKF(!rlx_moe_place(s, k % 2 ? 0 : -1, mask[k], 4), "%s",
			       rlx_session_error(s)->text);
			runs(s, &m, x, routes, y[k]);
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
		CHECKF(strstr(rlx_session_error(s)->text, "has 4"), "%s", rlx_session_error(s)->text);
		rlx_session_free(s);
	}
	free(m.w);
}

/* Layer 0 with mask 0001, layer 1 with 0010; routes [0, 1] in both: (1, 1) and (1, 1). */
TEST(r012_by_layer)
{
	const int32_t routes[4] = { 0, 1, 0, 1 };
	struct model m = { .layers = 2, .rows = 2, .width = 8, .experts = 4, .real = RLX_F32,
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
	draw(&m, &seed);
	for (d = 2; d < n; d++) {
		bool gpu = is_gpu(device[d]);

		s = session_of(&m, device[d]);
		CHECK_EQ(rlx_moe_layers(s), 2);
		CHECK(!rlx_moe_layer(s, 1, &l));
		CHECK(!strcmp(l.name, "w1") && l.experts == 4 && l.products == 1 &&
		      l.resident == 4 && l.expert_bytes == 8 * 8 * 4);
		runs(s, &m, x, routes, all);
		t = taken(s, -1);
		CHECK(t.rows_device == 4 && !t.rows_host && t.promoted == (gpu ? 8 : 0));
		/* entries that are missing count as resident */
		CHECK(!rlx_moe_place(s, 0, (bool[4]){ 1, 0, 0, 0 }, 4));
		CHECK(!rlx_moe_place(s, 1, (bool[1]){ 0 }, 1));
		CHECK(!rlx_moe_layer(s, 1, &l) && l.resident == 3);
		CHECK(!rlx_session_clone(s, &c, NULL));
		CHECK(!rlx_moe_layer(c, 0, &l) && l.resident == 1);
		for (i = 0; i < 2; i++) {
			runs(i ? c : s, &m, x, routes, y);
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

TEST_MAIN()
