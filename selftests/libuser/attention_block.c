// SPDX-License-Identifier: MIT
/*
 * Attention blocks and layers are found in graphs, as the report tells; projections that are one
 * are taken apart, and give what their parts give.
 */
#include <math.h>

#include "ir/graph.h"
#include "rlx/bert.h"
#include "rlx/blocks.h"
#include "rlx/compile.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/tiny_bert.h"

/* Small, so that what sums of many terms make of roundings to 16 bits stays near one of theirs. */
static rlx_value drawn(struct rlx_graph *g, uint64_t *seed, struct rlx_type t)
{
	enum rlx_dtype dt = t.dtype;
	int64_t n = rlx_type_count(&t), i;
	float *x = malloc((size_t)n * sizeof(*x) + 1);
	rlx_value v;

	CHECK(x);
	for (i = 0; i < n; i++)
		x[i] = (float)rlx_test_uniform(seed, -0.25, 0.25);
	t.dtype = RLX_F32;
	v = rlx_constant(g, t, x);
	free(x);
	return dt == RLX_F32 ? v : rlx_emit(g, cast, .x = v, .to = dt);
}

static void report_of(const struct rlx_program *p, char *text, size_t size)
{
	FILE *f = fmemopen(text, size, "w");

	CHECK(f && !rlx_program_report(p, f));
	fclose(f);
}

static bool reports(const struct rlx_program *p, const char *what)
{
	char text[4096];

	report_of(p, text, sizeof(text));
	return strstr(text, what) != NULL;
}

/* ---- projections that are one ---- */

enum kind { PLAIN, TWICE, ONE_ROW, SEEN, OVERLAP, PARAM, OTHER, RESIDUAL, N_KIND };

struct shape {
	int64_t		batch, seq, width, kv, group, d;
	enum rlx_dtype	dt;
	bool		in_out, biased, rope;
	enum kind	kind;
};

static rlx_value part(struct rlx_graph *g, rlx_value x, int64_t from, int64_t to)
{
	return rlx_emit(g, slice, .x = x, .axes = RLX_INTS(2), .starts = RLX_INTS(from),
			.ends = RLX_INTS(to));
}

static rlx_value attended(struct rlx_graph *g, const struct shape *z, uint64_t *seed,
			  const rlx_value p[3], int32_t mask, rlx_value x)
{
	rlx_value y = rlx_emit(g, attention, .q = p[0], .k = p[1], .v = p[2], .mask = mask,
			       .heads = (int32_t)(z->kv * z->group), .kv_heads = (int32_t)z->kv);
	struct rlx_type t = rlx_type(z->dt, z->kv * z->group * z->d, z->width);

	return rlx_emit(g, fused_matmul, .a = y, .b = drawn(g, seed, t), .residual = x);
}

/* The block as it is written by hand: one product, three slices, attention, a product. */
static struct rlx_graph *packed(const struct shape *z, uint64_t seed)
{
	int64_t h = z->kv * z->group * z->d, n = z->kv * z->d, all = h + 2 * n, q0 = 0;
	struct rlx_graph *g = rlx_graph_new("packed");
	rlx_value x = rlx_input(g, "x", rlx_type(z->dt, z->batch, z->seq, z->width)), w, y, p[3];
	struct rlx_type t = z->in_out ? rlx_type(z->dt, z->width, all) :
			    rlx_type(z->dt, all, z->width);

	w = z->kind == PARAM ? rlx_param(g, "w", t) : drawn(g, &seed, t);
	y = rlx_emit(g, fused_matmul, .a = x, .b = w, .trans_b = !z->in_out,
		     .bias = z->biased ? drawn(g, &seed, rlx_type(z->dt, all)) : RLX_NONE,
		     .residual = z->kind == RESIDUAL ?
		     drawn(g, &seed, rlx_type(z->dt, z->batch, z->seq, all)) : RLX_NONE);
	if (z->kind == SEEN)
		rlx_output(g, "seen", y);
	if (z->kind == OVERLAP)
		q0 = 1;			/* keys begin with what queries end with */
	p[0] = part(g, y, q0, h + q0);
	p[1] = part(g, y, h, h + n);
	p[2] = part(g, y, h + n, all);
	if (z->kind == OTHER)
		p[2] = drawn(g, &seed, rlx_type(z->dt, z->batch, z->seq, n));
	if (z->rope) {
		struct rlx_rope_tables tables = { .size = sizeof(tables), .positions = z->seq,
						  .n_rot = z->d };
		rlx_value c, s;

		rlx_block_rope_tables(g, &tables, &c, &s);
		p[0] = rlx_emit(g, rope, .x = p[0], .cos = c, .sin = s,
				.heads = (int32_t)(z->kv * z->group));
		p[1] = rlx_emit(g, rope, .x = p[1], .cos = c, .sin = s, .heads = (int32_t)z->kv);
	}
	y = attended(g, z, &seed, p, RLX_MASK_CAUSAL, x);
	if (z->kind == TWICE)
		y = attended(g, z, &seed, p, RLX_MASK_NONE, y);
	rlx_output(g, "y", y);
	return g;
}

static int64_t from(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) >> 33) % (hi - lo + 1);
}

static struct shape draw(uint64_t *seed, enum kind kind)
{
	static const enum rlx_dtype dts[] = { RLX_F32, RLX_F64, RLX_F16, RLX_BF16, RLX_F32 };
	struct shape z = { .batch = from(seed, 1, 3), .seq = from(seed, 2, 9),
			   .width = from(seed, 1, 40), .kv = from(seed, 1, 3),
			   .group = from(seed, 1, 3), .d = 2 * from(seed, 1, 9),
			   .dt = dts[from(seed, 0, 4)], .in_out = from(seed, 0, 1),
			   .biased = from(seed, 0, 1), .rope = from(seed, 0, 1), .kind = kind };

	if (kind == ONE_ROW)
		z.batch = z.seq = 1;
	return z;
}

static struct rlx_session *session(const struct shape *z, uint64_t seed, const char *device,
				   uint32_t flags)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .flags = flags };

	return rig_session(packed(z, seed), &o);
}

/* Output "y" of x drawn by @seed, as double. */
static void run(struct rlx_session *s, const struct shape *z, uint64_t seed, double *y)
{
	struct rlx_type t = rlx_type(RLX_F32, z->batch, z->seq, z->width), wide = t;
	int64_t n = rlx_type_count(&t), i;
	float x[3 * 9 * 40];

	for (i = 0; i < n; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, x));
	if (z->kind == PARAM) {
		struct rlx_buf b = rlx_session_buf(s, RLX_IO_PARAM, "w");

		memset(rlx_buf_ptr(b), 0, b.bytes);
	}
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	wide.dtype = RLX_F64;
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", wide, y));
}

static void equal(const struct shape *z, const char *device, const double *y, const double *want)
{
	double tol = z->dt == RLX_BF16 ? 3e-2 : z->dt == RLX_F16 ? 4e-3 : 1e-5;
	int64_t n = z->batch * z->seq * z->width, i;

	for (i = 0; i < n; i++)
		CHECKF(fabs(y[i] - want[i]) <= tol * (1 + fabs(want[i])), "%s, kind %d, dtype %d, "
		       "%d x %d x %d: element %d is %g, not %g", device, z->kind, z->dt,
		       (int)z->batch, (int)z->seq, (int)z->width, (int)i, y[i], want[i]);
}

TEST(r134_found_and_equal_to_its_parts)
{
	static double want[3 * 9 * 40], y[3 * 9 * 40];
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i;
	uint64_t seed = rlx_test_seed();

	for (i = 0; i < 8 * N_KIND; i++) {
		struct shape z = draw(&seed, i % N_KIND);
		uint64_t own = rlx_test_rand(&seed);
		struct rlx_session *s = session(&z, own, "ref", RLX_COMPILE_NO_FUSE);

		run(s, &z, own, want);
		rlx_session_free(s);
		for (d = 2; d < n; d++) {	/* ref fuses nothing */
			const struct rlx_program *p;

			s = session(&z, own, device[d], 0);
			p = rlx_session_program(s);
			CHECK_EQ(reports(p, z.kind == TWICE ? "found 2 attention blocks" :
					 "found 1 attention blocks"), z.kind != OTHER);
			CHECKF(reports(p, "made of 1 projections") == (z.kind <= TWICE), "kind %d",
			       z.kind);
			if (z.kind <= TWICE && z.dt == RLX_F32)	/* f64's rope is of slices */
				CHECK_EQ(rig_count(rlx_program_graph(p), RLX_OP_slice), 0);
			run(s, &z, own, y);
			equal(&z, device[d], y, want);
			rlx_session_free(s);
		}
	}
}

static enum rlx_status compiled(void *ctx)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	enum rlx_status st = rlx_compile(ctx, &o, &p, &err);

	CHECKF(!st || err.text[0], "status %d without a message", st);
	rlx_program_put(p);
	return st;
}

/* A product of integers has no other form; what attention reads of it are floats. */
EVERYWHERE(product_of_integers)
{
	rlx_value x, w, y, p[3];
	int32_t in[48], c[8 * 24];
	unsigned int i;

	for (i = 0; i < 48; i++)
		in[i] = (int32_t)(i % 5) - 2;
	for (i = 0; i < 8 * 24; i++)
		c[i] = (int32_t)(i % 7) - 3;
	x = rig_input(r, rlx_type(RLX_I32, 2, 3, 8), in);
	w = rlx_constant(r->g, rlx_type(RLX_I32, 8, 24), c);
	y = rlx_emit(r->g, matmul, .a = x, .b = w);
	for (i = 0; i < 3; i++)
		p[i] = rlx_emit(r->g, cast, .x = part(r->g, y, 8 * i, 8 * i + 8), .to = RLX_F32);
	y = rlx_emit(r->g, attention, .q = p[0], .k = p[1], .v = p[2], .heads = 2);
	rig_output(r, rlx_emit(r->g, matmul, .a = y,
			       .b = rig_random(r, rlx_type(RLX_F32, 8, 4), -1, 1)));
	rig_run(r);
}

/* Either of queries and keys may be normed alone. */
EVERYWHERE(one_norm)
{
	int keys, i;

	for (keys = 0; keys < 2; keys++) {
		struct rlx_attention_block a = { .size = sizeof(a), .heads = 4, .kv_heads = 2 };
		rlx_value x, p[3], gamma;

		rig_reset(r);
		x = rig_random(r, rlx_type(RLX_F32, 2, 3, 8), -1, 1);
		gamma = rig_random(r, rlx_type(RLX_F32, 6), 0, 2);
		a.q.w = rig_random(r, rlx_type(RLX_F32, 24, 8), -1, 1);
		a.k.w = rig_random(r, rlx_type(RLX_F32, 12, 8), -1, 1);
		a.v.w = rig_random(r, rlx_type(RLX_F32, 12, 8), -1, 1);
		a.out.w = rig_random(r, rlx_type(RLX_F32, 8, 24), -1, 1);
		*(keys ? &a.k_norm : &a.q_norm) = (struct rlx_norm){ .gamma = gamma, .eps = 1e-5f,
								     .kind = RLX_NORM_RMS };
		rig_output(r, rlx_block_attention(r->g, x, &a, RLX_NONE));
		for (i = 0; i < 3; i++) {
			p[i] = rlx_emit(r->g, fused_matmul, .a = x, .trans_b = true,
					.b = i == 0 ? a.q.w : i == 1 ? a.k.w : a.v.w);
			p[i] = rlx_emit(r->g, reshape, .x = p[i],
					.shape = RLX_INTS(2, 3, i ? 2 : 4, 6));
		}
		p[keys] = rlx_emit(r->g, rms_norm, .x = p[keys], .gamma = gamma, .axis = -1,
				   .eps = 1e-5f);
		p[0] = rlx_emit(r->g, attention, .q = p[0], .k = p[1], .v = p[2], .heads = 4,
				.kv_heads = 2);
		p[0] = rlx_emit(r->g, reshape, .x = p[0], .shape = RLX_INTS(2, 3, 24));
		rig_output(r, rlx_emit(r->g, fused_matmul, .a = p[0], .b = a.out.w,
				       .trans_b = true));
		rig_run(r);
		for (i = 0; i < 48; i++)
			rig_want(r, 0, i, rig_get(r, 1, i), 1e-5);
	}
}

TEST(no_memory_anywhere)
{
	struct shape z = { 2, 3, 8, 1, 2, 4, RLX_F32, .biased = true };
	struct rlx_graph *g;

	g = packed(&z, 1);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECK(rlx_oom_sweep(compiled, g) > 100);
	rlx_graph_put(g);
}

/* ---- layers ---- */

static rlx_value constant(struct rlx_graph *g, int64_t rows, int64_t cols, const float *x)
{
	return rlx_constant(g, rows ? rlx_type(RLX_F32, rows, cols) : rlx_type(RLX_F32, cols), x);
}

/*
 * A layer of BERT of one head, or its attention alone; all weights are @w[2, 2], but for @wide[6,
 * 2] if that is given, which is all three projections.
 */
static struct rlx_graph *layer(const float *w, const float *wide, bool whole)
{
	static const float one[2] = { 1, 1 };
	struct rlx_graph *g = rlx_graph_new("layer");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, 1, 2)), eye = constant(g, 2, 2, w);
	struct rlx_norm n = { .gamma = constant(g, 0, 2, one) };
	struct rlx_attention_block a = { .size = sizeof(a), .q = { .w = eye }, .k = { .w = eye },
					 .v = { .w = eye }, .out = { .w = eye }, .heads = 1 };
	struct rlx_ffn_block f = { .size = sizeof(f), .up = { eye, .act = RLX_ACT_RELU },
				   .down = { .w = eye } };
	struct rlx_layer_block l = { .size = sizeof(l), .attention = &a, .ffn = &f, .norm1 = n,
				     .norm2 = n, .post_norm = true };

	if (wide) {
		a.q.w = constant(g, 6, 2, wide);
		a.k.w = a.v.w = RLX_NONE;
	}
	rlx_output(g, "y", whole ? rlx_block_layer(g, x, &l) :
		   rlx_block_attention(g, x, &a, RLX_NONE));
	return g;
}

/* Through the text form. */
static struct rlx_session *parsed(struct rlx_graph *g, const char *device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_error err = { 0 };
	struct rlx_graph *back;
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECK(f && !rlx_graph_print(g, f, false));
	fclose(f);
	CHECKF(!rlx_graph_parse(text, len, &back, &err), "%s", err.text);
	CHECK_EQ(rlx_graph_hash(back), rlx_graph_hash(g));
	free(text);
	rlx_graph_put(g);
	return rig_session(back, &o);
}

/* One key, so that attention gives v, which is x; a norm of two numbers is -1 and 1. */
TEST(r134_r135_layer_of_a_text)
{
	const float eye[12] = { 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1 }, x[2] = { 0.25f, 3 };
	struct rlx_type t = rlx_type(RLX_F32, 1, 1, 2);
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i;
	float y[2];

	for (i = 0; i < 4; i++)
		for (d = 2; d < n; d++) {
			bool whole = i & 1;
			struct rlx_session *s = parsed(layer(eye, i & 2 ? eye : NULL, whole),
						       device[d]);

			CHECK(reports(rlx_session_program(s), whole ?
				      "found 1 attention blocks, 1 of them in post-norm and 0" :
				      "found 1 attention blocks, 0 of them in post-norm and 0"));
			CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, x));
			CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
			CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y));
			CHECKF(fabsf(y[0] - (whole ? -1 : x[0])) < 1e-6f &&
			       fabsf(y[1] - (whole ? 1 : x[1])) < 1e-6f, "%s, %u: %g %g", device[d],
			       i, (double)y[0], (double)y[1]);
			rlx_session_free(s);
		}
}

static char dir[] = "/tmp/rlx-block-XXXXXX";

static void remove_dir(void)
{
	tb_remove(dir);
}

/* An encoder of MiniLM's kind: six layers. */
TEST(r135_layers_of_an_encoder)
{
	static struct tiny_bert files;
	const struct tb_size size = { 48, 6, 12, 96, 50, 40, 2 };
	struct rlx_bert_opts o = { .size = sizeof(o), .batch = 2, .seq = 7 };
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_bert *b = NULL;
	struct rlx_graph *g;
	struct rlx_session *s;

	CHECK(mkdtemp(dir));
	atexit(remove_dir);
	tb_init_size(&files, &size, &seed);
	tb_write(&files, dir);
	CHECKF(!rlx_bert_open(dir, &b, &err), "%s", err.text);
	for (o.pool = RLX_BERT_TOKENS; o.pool <= RLX_BERT_CLS; o.pool++) {
		CHECKF(!rlx_bert_graph(b, &o, &g, &err), "%s", err.text);
		s = rig_session(g, NULL);
		CHECK(reports(rlx_session_program(s), "found 6 attention blocks, 6 of them in "
			      "post-norm and 0 in pre-norm"));
		rlx_session_free(s);
	}
	rlx_bert_put(b);
	tb_fini(&files);
}

/* A decoder's layers: norms first, a gated network, experts. */
TEST(r135_layers_of_a_decoder)
{
	struct rlx_graph *g = rlx_graph_new("decoder");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, 5, 8));
	uint64_t seed = rlx_test_seed();
	struct rlx_session *s;
	int i;

	for (i = 0; i < 3; i++) {
		struct rlx_linear w = { .w = drawn(g, &seed, rlx_type(RLX_F32, 8, 8)) };
		struct rlx_norm n = { .gamma = drawn(g, &seed, rlx_type(RLX_F32, 8)), .eps = 1e-5f,
				      .kind = RLX_NORM_RMS };
		struct rlx_attention_block a = { .size = sizeof(a), .q = w, .k = w, .v = w,
						 .out = w, .heads = 2, .mask = RLX_MASK_CAUSAL };
		struct rlx_ffn_block f = { .size = sizeof(f), .gate = { w.w, .act = RLX_ACT_SILU },
					   .up = w, .down = w };
		struct rlx_layer_block l = { .size = sizeof(l), .attention = &a, .ffn = &f,
					     .norm1 = n, .norm2 = n };

		x = rlx_block_layer(g, x, &l);
	}
	rlx_output(g, "y", x);
	s = rig_session(g, NULL);
	CHECK(reports(rlx_session_program(s), "found 3 attention blocks, 0 of them in post-norm "
		      "and 3 in pre-norm"));
	rlx_session_free(s);
}

TEST_MAIN()
