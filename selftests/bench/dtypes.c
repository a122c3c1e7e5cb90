// SPDX-License-Identifier: MIT
/*
 * Ops by dtype on one thread: f32's time, and each other dtype's as a multiple of it for as
 * many elements, a double or 64-bit integer counted as two; fastest of runs in turns. Two stars
 * mark what is above BOUND. RLX_ISA forces a level.
 *
 *	build/test/bench/dtypes [OP ...]
 *
 * "-": the op does not take the dtype; "host" follows what the evaluator runs.
 */
#include "ir/element.h"
#include "rlx/log.h"
#include "selftests/bench/session_turn.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

#define BOUND	4.0

enum { TURNS = 6, TURN_NS = 300000, ROWS = 64, COLS = 512 };

static const enum rlx_dtype types[] = {
	RLX_F32, RLX_F64, RLX_F16, RLX_BF16, RLX_F8E4M3, RLX_F8E5M2, RLX_I64, RLX_U64,
	RLX_I32, RLX_U32, RLX_I16, RLX_U16, RLX_I8, RLX_U8,
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

static rlx_value in(struct rlx_graph *g, struct rlx_type t)
{
	char name[8];

	snprintf(name, sizeof(name), "%u", rlx_graph_io_count(g, RLX_IO_INPUT));
	return rlx_input(g, name, t);
}

static rlx_value in2(struct rlx_graph *g, enum rlx_dtype dt)
{
	return in(g, rlx_type(dt, ROWS, COLS));
}

#define INTS(...)	{ (int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / 8 }
#define BUILD(n, ...)							\
static rlx_value build_##n(struct rlx_graph *g, enum rlx_dtype dt)	\
{									\
	return __VA_ARGS__;						\
}
#define ONE(n)	BUILD(n, rlx_emit(g, n, .x = in2(g, dt)))
#define TWO(n)	BUILD(n, rlx_emit(g, n, .a = in2(g, dt), .b = in2(g, dt)))
#define REDUCE(n, k, axis)						\
BUILD(n, rlx_emit(g, reduce, .x = in2(g, dt), .axes = INTS(axis), .kind = RLX_REDUCE_##k))
#define IMAGE	in(g, rlx_type(dt, 1, 8, 64, 64))
#define POOL(n, k)							\
BUILD(n, rlx_emit(g, pool, .x = IMAGE, .kind = RLX_POOL_##k, .kernel = INTS(3, 3),	\
		  .stride = INTS(2, 2)))
#define RESIZE(n, m)							\
BUILD(n, rlx_emit(g, resize, .x = IMAGE, .sizes = INTS(1, 8, 96, 96), .mode = RLX_RESIZE_##m))
#define AT(...)	in(g, rlx_type(RLX_I64, __VA_ARGS__))

/* clang-format off */
#define OPS_LIST(ONE, TWO)						\
	ONE(neg) ONE(abs) ONE(sign) ONE(relu) ONE(bit_not)		\
	TWO(add) TWO(sub) TWO(mul) TWO(div) TWO(mod) TWO(fmod) TWO(pow)	\
	TWO(max) TWO(min) TWO(eq) TWO(ne) TWO(lt) TWO(le) TWO(gt) TWO(ge) \
	TWO(bit_and) TWO(bit_or) TWO(bit_xor) TWO(shl) TWO(shr)		\
	ONE(exp) ONE(log) ONE(sqrt) ONE(rsqrt) ONE(recip) ONE(sin)	\
	ONE(cos) ONE(tan) ONE(tanh) ONE(sigmoid) ONE(silu) ONE(gelu)	\
	ONE(gelu_tanh) ONE(erf) ONE(softplus) ONE(mish) ONE(softsign)	\
	ONE(hard_swish) ONE(floor) ONE(ceil) ONE(round) ONE(trunc)	\
	ONE(is_nan) ONE(is_inf) TWO(atan2) ONE(asin) ONE(acos) ONE(atan)	\
	ONE(sinh) ONE(cosh) ONE(asinh) ONE(acosh) ONE(atanh)
/* clang-format on */
OPS_LIST(ONE, TWO)
BUILD(where, rlx_emit(g, where, .cond = in2(g, RLX_BOOL), .a = in2(g, dt), .b = in2(g, dt)))
BUILD(add_row, rlx_emit(g, add, .a = in2(g, dt), .b = in(g, rlx_type(dt, COLS))))
BUILD(chain, rlx_emit(g, mul, .a = rlx_emit(g, add, .a = in2(g, dt), .b = in2(g, dt)),
		      .b = rlx_emit(g, max, .a = in2(g, dt), .b = in2(g, dt))))
BUILD(cast_f32, rlx_emit(g, cast, .x = in2(g, dt), .to = dt == RLX_F32 ? RLX_F16 : RLX_F32))
BUILD(from_f32, rlx_emit(g, cast, .x = in2(g, RLX_F32), .to = dt == RLX_F32 ? RLX_F16 : dt))
REDUCE(sum_row, SUM, 1)
REDUCE(sum_col, SUM, 0)
REDUCE(mean_row, MEAN, 1)
REDUCE(mean_col, MEAN, 0)
REDUCE(max_row, MAX, 1)
REDUCE(max_col, MAX, 0)
REDUCE(prod_row, PROD, 1)
BUILD(argmax_row, rlx_emit(g, arg_reduce, .x = in2(g, dt), .axis = 1))
BUILD(argmax_col, rlx_emit(g, arg_reduce, .x = in2(g, dt), .axis = 0))
BUILD(cumsum_row, rlx_emit(g, cumsum, .x = in2(g, dt), .axis = 1))
BUILD(cumsum_col, rlx_emit(g, cumsum, .x = in2(g, dt), .axis = 0))
BUILD(softmax_row, rlx_emit(g, softmax, .x = in2(g, dt), .axis = 1))
BUILD(softmax_col, rlx_emit(g, softmax, .x = in2(g, dt), .axis = 0))
BUILD(log_softmax, rlx_emit(g, log_softmax, .x = in2(g, dt), .axis = 1))
BUILD(layer_norm, rlx_emit(g, layer_norm, .x = in2(g, dt), .gamma = in(g, rlx_type(dt, COLS)),
			   .beta = in(g, rlx_type(dt, COLS)), .axis = 1, .eps = 1e-5f))
BUILD(rms_norm, rlx_emit(g, rms_norm, .x = in2(g, dt), .gamma = in(g, rlx_type(dt, COLS)),
			 .axis = 1, .eps = 1e-5f))
BUILD(group_norm, rlx_emit(g, group_norm, .x = IMAGE, .groups = 2, .eps = 1e-5f))
BUILD(matmul, rlx_emit(g, matmul, .a = in(g, rlx_type(dt, 96, 96)),
		       .b = in(g, rlx_type(dt, 96, 96))))
BUILD(gemv, rlx_emit(g, matmul, .a = in(g, rlx_type(dt, 1, 256)),
		     .b = in(g, rlx_type(dt, 256, 256))))
BUILD(conv, rlx_emit(g, conv, .x = IMAGE, .w = in(g, rlx_type(dt, 8, 8, 3, 3)),
		     .pad = INTS(1, 1, 1, 1)))
POOL(pool_max, MAX)
POOL(pool_avg, AVG)
RESIZE(resize_nearest, NEAREST)
RESIZE(resize_linear, LINEAR)
RESIZE(resize_cubic, CUBIC)
BUILD(transpose, rlx_emit(g, transpose, .x = in(g, rlx_type(dt, 128, 256))))
BUILD(transpose_021, rlx_emit(g, transpose, .x = in(g, rlx_type(dt, 32, 16, 64)),
			      .perm = INTS(1, 0, 2)))
BUILD(slice_step, rlx_emit(g, slice, .x = in2(g, dt), .starts = INTS(0), .ends = INTS(COLS),
			   .axes = INTS(1), .steps = INTS(2)))
BUILD(pad, rlx_emit(g, pad, .x = in2(g, dt), .pads = INTS(1, 1, 1, 1)))
BUILD(tile, rlx_emit(g, tile, .x = in2(g, dt), .repeats = INTS(2, 2)))
BUILD(trilu, rlx_emit(g, trilu, .x = in2(g, dt)))
BUILD(gather, rlx_emit(g, gather, .x = in2(g, dt), .indices = AT(128), .axis = 0))
BUILD(gather_elements, rlx_emit(g, gather_elements, .x = in2(g, dt), .indices = AT(ROWS, COLS),
				.axis = 1))
BUILD(scatter_set, rlx_emit(g, scatter_elements, .x = in2(g, dt), .indices = AT(ROWS, COLS),
			    .updates = in2(g, dt), .axis = 1))
BUILD(scatter_add, rlx_emit(g, scatter_elements, .x = in2(g, dt), .indices = AT(ROWS, COLS),
			    .updates = in2(g, dt), .axis = 1, .reduction = RLX_SCATTER_ADD))
BUILD(topk, rlx_emit(g, topk, .x = in2(g, dt), .k = 8, .axis = 1))
BUILD(sort, rlx_emit(g, sort, .x = in2(g, dt), .axis = 1))

/* clang-format off */
static const struct {
	const char	*name;
	rlx_value	(*build)(struct rlx_graph *g, enum rlx_dtype dt);
} ops[] = {
#define ROW(n)	{ #n, build_##n },
	OPS_LIST(ROW, ROW)
	ROW(where) ROW(add_row) ROW(chain) ROW(cast_f32) ROW(from_f32)
	ROW(sum_row) ROW(sum_col) ROW(mean_row) ROW(mean_col) ROW(max_row) ROW(max_col)
	ROW(prod_row) ROW(argmax_row) ROW(argmax_col) ROW(cumsum_row) ROW(cumsum_col)
	ROW(softmax_row) ROW(softmax_col) ROW(log_softmax) ROW(layer_norm) ROW(rms_norm)
	ROW(group_norm) ROW(matmul) ROW(gemv) ROW(conv) ROW(pool_max) ROW(pool_avg)
	ROW(resize_nearest) ROW(resize_linear) ROW(resize_cubic) ROW(transpose)
	ROW(transpose_021) ROW(slice_step) ROW(pad) ROW(tile) ROW(trilu) ROW(gather)
	ROW(gather_elements) ROW(scatter_set) ROW(scatter_add) ROW(topk) ROW(sort)
};
/* clang-format on */

static void fill(struct rlx_session *s, uint64_t *seed)
{
	struct rlx_program *p = rlx_session_program(s);
	unsigned int k;
	int64_t i, n;

	for (k = 0; k < rlx_program_io_count(p, RLX_IO_INPUT); k++) {
		const char *name = rlx_program_io_name(p, RLX_IO_INPUT, k);
		struct rlx_tensor t = { *rlx_program_io_type(p, RLX_IO_INPUT, k),
					rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, name)) };

		n = rlx_type_count(&t.type);
		for (i = 0; i < n; i++)
			if (el_is_int(t.type.dtype))
				el_seti(&t, i, (int64_t)(rlx_test_rand(seed) >> 20 & 7));
			else
				el_set(&t, i, rlx_test_uniform(seed, -2, 2));
	}
}

/* The op's session, or NULL where it does not take @dt; *@host: the evaluator runs it. */
static struct rlx_session *open_one(unsigned int op, enum rlx_dtype dt, bool *host)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1,
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = rlx_graph_new("bench");
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	uint64_t seed = 1;
	rlx_value y = ops[op].build(g, dt);
	struct rlx_program *p = NULL;

	if (!rlx_graph_error(g)->status) {
		rlx_output(g, "y", y);
		CHECK(!rlx_graph_finish(g));
		*host = rlx_compile(g, &o, &p, &err) != RLX_OK;
		o.flags = 0;
		err = (struct rlx_error){ 0 };
		rlx_program_put(p);
		CHECKF(!rlx_compile(g, &o, &p, &err), "%s: %s", ops[op].name, err.text);
		CHECK(!rlx_session_new(p, NULL, &s, &err));
		rlx_program_put(p);
		fill(s, &seed);
	}
	rlx_graph_put(g);
	return s;
}

static bool bench(unsigned int op)
{
	struct rlx_session *s[TYPES];
	double best[TYPES], ratio;
	bool host[TYPES] = { false }, well = true;
	unsigned int i, k;
	uint32_t base;

	for (k = 0; k < TYPES; k++) {
		s[k] = open_one(op, types[k], &host[k]);
		best[k] = 1e30;
	}
	base = s[0] ? 0 : 8;	/* what takes integers alone is told by i32's time */
	for (i = 0; i < TURNS; i++)
		for (k = 0; k < TYPES; k++)
			if (s[k]) {
				double t = session_turn(s[k], TURN_NS);

				best[k] = t < best[k] ? t : best[k];
			}
	printf("%-15s %8.1f", ops[op].name, best[base] * 1e-3);
	for (k = 1; k < TYPES; k++) {
		ratio = best[k] / best[base] / (rlx_dtype_size(types[k]) == 8 ? 2 : 1);
		if (s[k])
			printf(" %5.1f%s", ratio,
			       host[k] ? "h " : ratio > BOUND ? "**" : "  ");
		else
			printf("     -  ");
		well &= !s[k] || ratio <= BOUND;
		rlx_session_free(s[k]);
	}
	printf("\n");
	rlx_session_free(s[0]);
	return well;
}

int main(int argc, char **argv)
{
	unsigned int op, k, above = 0;

	setlinebuf(stdout);
	printf("%-15s %8s", "op", "f32, us");
	for (k = 1; k < TYPES; k++)
		printf(" %5s  ", rlx_dtype_name(types[k]));
	printf("\n");
	for (op = 0; op < sizeof(ops) / sizeof(ops[0]); op++)
		if (rlx_test_wanted(ops[op].name, argc, argv))
			above += !bench(op);
	printf("%u ops with a dtype above %g times f32\n", above, BOUND);
	return 0;
}
