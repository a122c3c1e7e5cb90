// SPDX-License-Identifier: MIT
/*
 * Weights that are params are packed by the first run, as constants are by the compiler: the
 * same kernels give the same bits, no later run packs them again, and one does once they changed.
 * Products of weights that change all the time have the kernels of weights that are inputs.
 */
#include "backends/cpu/cpu.h"
#include "base/half.h"
#include "rt/session.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 1 << 16 };

struct form {
	const char	*name;
	struct rlx_type	x, w;
	rlx_value	(*emit)(struct rlx_graph *g, rlx_value x, rlx_value w);
};

static rlx_value product(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, matmul, .a = x, .b = w);
}

static rlx_value product_trans(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, fused_matmul, .a = x, .b = w, .trans_b = true);
}

/* What the product reads is made of the param. */
static rlx_value product_of_made(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, matmul, .a = x, .b = rlx_emit(g, abs, .x = w));
}

static rlx_value product_bytes(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, qmatmul, .a = x, .b = w);
}

/* Weights of which no kernel may know that they are symmetric. */
static rlx_value conv_bytes(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	const uint8_t zero = 113;

	return rlx_emit(g, qconv, .x = x, .w = w, .groups = 2, .pad = RLX_INTS(1, 0, 1, 2),
			.w_zp = rlx_constant(g, rlx_scalar(RLX_U8), &zero));
}

static rlx_value conv(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, conv, .x = x, .w = w);
}

static rlx_value conv_padded(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, conv, .x = x, .w = w, .pad = RLX_INTS(1, 1, 1, 1));
}

static rlx_value conv_wide(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, conv, .x = x, .w = w, .stride = RLX_INTS(2, 1),
			.pad = RLX_INTS(2, 0, 1, 2));
}

static rlx_value depthwise(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, conv, .x = x, .w = w, .groups = 32, .pad = RLX_INTS(1, 1, 1, 1));
}

static rlx_value transposed(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	return rlx_emit(g, conv_transpose, .x = x, .w = w, .stride = RLX_INTS(2, 3));
}

/* Of a recurrence only those that the hidden state meets are packed by a call. */
static rlx_value recurrence(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	float in[33 * 5];
	int i;

	for (i = 0; i < 33 * 5; i++)
		in[i] = (float)(i % 7 - 3) / 4;
	return rlx_emit(g, gru, .x = x, .r = w,
			.w = rlx_constant(g, rlx_type(RLX_F32, 1, 33, 5), in));
}

#define T(dt, ...)	rlx_type(RLX_##dt, __VA_ARGS__)
static const struct form *forms(uint32_t *n)
{
	static struct form f[25];
	uint32_t i = 0;
	const int64_t rows[] = { 1, 3, 17, 70 };

	for (uint32_t k = 0; k < 4; k++) {
		f[i++] = (struct form){ "f32", T(F32, rows[k], 65), T(F32, 65, 47), product };
		f[i++] = (struct form){ "bf16", T(BF16, rows[k], 65), T(BF16, 65, 47), product };
		f[i++] = (struct form){ "f16", T(F16, rows[k], 65), T(F16, 47, 65), product_trans };
	}
	f[i++] = (struct form){ "f64", T(F64, 2, 5, 33), T(F64, 33, 19), product };
	f[i++] = (struct form){ "of a step", T(F32, 9, 33), T(F32, 33, 19), product_of_made };
	f[i++] = (struct form){ "bytes", T(U8, 9, 33), T(I8, 33, 50), product_bytes };
	f[i++] = (struct form){ "conv of bytes", T(U8, 2, 8, 9, 7), T(U8, 6, 4, 3, 2), conv_bytes };
	f[i++] = (struct form){ "1x1", T(F32, 2, 33, 7, 9), T(F32, 20, 33, 1, 1), conv };
	f[i++] = (struct form){ "3x3", T(F32, 1, 32, 14, 15), T(F32, 32, 32, 3, 3), conv_padded };
	f[i++] = (struct form){ "image", T(F32, 1, 3, 14, 15), T(F32, 33, 3, 3, 3), conv_padded };
	f[i++] = (struct form){ "strided", T(F32, 3, 16, 14, 15), T(F32, 35, 16, 4, 5), conv_wide };
	f[i++] = (struct form){ "depthwise", T(F32, 2, 32, 9, 8), T(F32, 32, 1, 3, 3), depthwise };
	f[i++] = (struct form){ "line", T(F32, 2, 16, 31), T(F32, 17, 16, 5), conv };
	f[i++] = (struct form){ "few", T(F32, 2, 2, 9, 9), T(F32, 3, 2, 3, 2), conv };
	f[i++] = (struct form){ "transposed", T(F32, 2, 5, 6, 7), T(F32, 5, 4, 3, 4), transposed };
	f[i++] = (struct form){ "gru", T(F32, 6, 3, 5), T(F32, 1, 33, 11), recurrence };
	CHECK_EQ(i, 25);
	*n = i;
	return f;
}

static void draw(const struct rlx_type *t, void *to, uint64_t *seed)
{
	int64_t n = rlx_type_count(t), i;

	CHECK(rlx_type_bytes(t) <= MOST);
	for (i = 0; i < n; i++) {
		double v = rlx_test_uniform(seed, -2, 2);

		switch (t->dtype) {
		case RLX_F64: ((double *)to)[i] = v; break;
		case RLX_F32: ((float *)to)[i] = (float)v; break;
		case RLX_F16: ((uint16_t *)to)[i] = rlx_f32_to_f16((float)v); break;
		case RLX_BF16: ((uint16_t *)to)[i] = rlx_f32_to_bf16((float)v); break;
		default: ((uint8_t *)to)[i] = (uint8_t)rlx_test_rand(seed);
		}
	}
}

/* With weights of that kind; of constants @data. */
static struct rlx_session *session(const struct form *f, enum rlx_io kind, const void *data)
{
	struct rlx_graph *g = rlx_graph_new(f->name);
	rlx_value x = rlx_input(g, "x", f->x), w;

	if (data)
		w = rlx_constant(g, f->w, data);
	else
		w = kind == RLX_IO_PARAM ? rlx_param(g, "w", f->w) : rlx_input(g, "w", f->w);
	rlx_output(g, "y", f->emit(g, x, w));
	return rig_session(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
							  .device = "cpu",
							  .flags = RLX_COMPILE_NATIVE });
}

static void run(struct rlx_session *s, const struct form *f, const void *x)
{
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", f->x, x));
	CHECKF(!rlx_session_run(s), "%s: %s", f->name, rlx_session_error(s)->text);
}

static const struct cpu_code *code_of(const struct rlx_session *s)
{
	return (const struct cpu_code *)s->p->code;
}

/* Output of @s to the bit that of a program with the weights @w as a constant or as an input. */
static void check(struct rlx_session *s, const struct form *f, const void *x, const void *w,
		  bool as_input)
{
	struct rlx_session *want = session(f, RLX_IO_INPUT, as_input ? NULL : w);
	struct rlx_buf a, b;

	if (as_input)
		CHECK(!rlx_session_set(want, RLX_IO_INPUT, "w", f->w, w));
	run(want, f, x);
	a = rlx_session_bound(s, RLX_IO_OUTPUT, "y");
	b = rlx_session_bound(want, RLX_IO_OUTPUT, "y");
	CHECKF(a.bytes == b.bytes && !memcmp(rlx_buf_ptr(a), rlx_buf_ptr(b), b.bytes),
	       "%s: a param's product is another than %s", f->name,
	       as_input ? "an input's" : "a constant's");
	rlx_session_free(want);
}

/* How many weights are packed. */
static uint32_t packed(const struct rlx_session *s)
{
	const struct cpu_exec *x = (const struct cpu_exec *)s->exec;
	uint32_t i, n = 0;

	for (i = 0; i < code_of(s)->n_param_pack; i++)
		n += x->pack_use[i].packed;
	return n;
}

static unsigned char x[MOST], w[MOST];

static void set_w(struct rlx_session *s, const struct form *f, uint64_t *seed)
{
	draw(&f->w, w, seed);
	CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", f->w, w));
	CHECK_EQ(packed(s), 0);
}

static void once(const struct form *f, uint64_t seed)
{
	struct rlx_session *s = session(f, RLX_IO_PARAM, NULL);
	struct rlx_buf b;
	int i;

	set_w(s, f, &seed);
	for (i = 0; i < 9; i++) {
		draw(&f->x, x, &seed);
		run(s, f, x);
		check(s, f, x, w, false);
		CHECKF(packed(s) == 1, "%s: %u packed", f->name, packed(s));
	}
	/* not looked at again until somebody says so */
	b = rlx_session_bound(s, RLX_IO_PARAM, "w");
	memset(rlx_buf_ptr(b), 0, (size_t)rlx_type_bytes(&f->w));
	run(s, f, x);
	check(s, f, x, w, false);
	set_w(s, f, &seed);
	for (i = 0; i < 2; i++) {
		run(s, f, x);
		check(s, f, x, w, false);
		CHECK_EQ(packed(s), 1);
	}
	rlx_session_free(s);
}

TEST(weights_are_packed_once)
{
	const struct form *f;
	uint32_t n, i;

	for (f = forms(&n), i = 0; i < n; i++)
		once(&f[i], rlx_test_seed() + i);
}

/* Set before each run, and then no more. */
static void changing(const struct form *f, uint64_t seed)
{
	struct rlx_session *s = session(f, RLX_IO_PARAM, NULL);
	bool optional = code_of(s)->param_pack[0].optional;
	int i;

	for (i = 0; i < 14; i++) {
		bool as_is = optional && i && i < 11;

		if (i < 4)
			set_w(s, f, &seed);
		draw(&f->x, x, &seed);
		run(s, f, x);
		CHECKF(packed(s) == !as_is, "%s: run %d: %u packed", f->name, i, packed(s));
		check(s, f, x, w, as_is);
	}
	rlx_session_free(s);
}

TEST(weights_that_change_are_read_as_they_are)
{
	const struct form *f;
	uint32_t n, i;

	for (f = forms(&n), i = 0; i < n; i++)
		changing(&f[i], rlx_test_seed() + i);
}

/* A workspace that another session may have written to. */
static void shared(const struct form *f, uint64_t seed)
{
	struct rlx_session *first = session(f, RLX_IO_PARAM, NULL), *s;
	struct rlx_session_opts o = { .size = sizeof(o) };
	struct rlx_program_info info;
	struct rlx_arena *a;
	int i;

	rlx_program_info(rlx_session_program(first), &info);
	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = info.work_bytes + 64 }, &a, NULL));
	o.work = rlx_buf_whole(a);
	CHECK(!rlx_session_new(rlx_session_program(first), &o, &s, NULL));
	set_w(s, f, &seed);
	for (i = 0; i < 10; i++) {
		memset(rlx_buf_ptr(o.work), 0x7f, o.work.bytes);
		draw(&f->x, x, &seed);
		run(s, f, x);
		check(s, f, x, w, code_of(s)->param_pack[0].optional);
	}
	rlx_session_free(s);
	rlx_session_free(first);
	rlx_arena_put(a);
}

TEST(nothing_is_kept_in_a_workspace_that_is_shared)
{
	const struct form *f;
	uint32_t n, i;

	for (f = forms(&n), i = 0; i < n; i++)
		shared(&f[i], rlx_test_seed() + i);
}

static const char *const name[4] = { "a", "b", "c", "d" };

/* Two products and two convolutions by each of two params. */
static struct rlx_session *several(void)
{
	struct rlx_graph *g = rlx_graph_new("several");
	struct rlx_type filters = T(F32, 32, 32, 3, 3), image = T(F32, 1, 32, 14, 15);
	rlx_value v = rlx_param(g, "v", T(F32, 65, 47)), c = rlx_param(g, "w", filters), in;
	int i;

	for (i = 0; i < 4; i++) {
		in = rlx_input(g, name[i], i < 2 ? T(F32, 5 + i, 65) : image);
		rlx_output(g, name[i], i < 2 ? product(g, in, v) : conv_padded(g, in, c));
		image = T(F32, 2, 32, 15, 14);
	}
	return rig_session(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
							  .device = "cpu" });
}

TEST(what_reads_one_param_shares_what_is_packed)
{
	struct rlx_session *s = several(), *all = several();
	const struct cpu_exec *e = (const struct cpu_exec *)s->exec;
	uint64_t seed = rlx_test_seed();
	unsigned int k, i, n;

	CHECK_EQ(code_of(s)->n_param_pack, 2);
	for (k = 0; k < 2; k++)
		for (i = 0; i < rlx_program_io_count(s->p, (enum rlx_io)k); i++) {
			struct rlx_buf to = rlx_session_buf_at(s, (enum rlx_io)k, i);
			struct rlx_buf too = rlx_session_buf_at(all, (enum rlx_io)k, i);

			for (n = 0; n < to.bytes / sizeof(float); n++)
				((float *)rlx_buf_ptr(to))[n] =
					(float)rlx_test_uniform(&seed, -1, 1);
			memcpy(rlx_buf_ptr(too), rlx_buf_ptr(to), to.bytes);
		}
	CHECK(!rlx_session_run(all));
	/* the first of the two that read it does not run, so that the second has it packed */
	for (i = 4; i-- > 0;) {
		struct rlx_buf a, b;

		CHECK(!rlx_session_want(s, &name[i], 1));
		CHECK(!rlx_session_run(s));
		a = rlx_session_buf_at(s, RLX_IO_OUTPUT, i);
		b = rlx_session_buf_at(all, RLX_IO_OUTPUT, i);
		CHECKF(!memcmp(rlx_buf_ptr(a), rlx_buf_ptr(b), a.bytes), "output %u", i);
		CHECK_EQ(packed(s), i < 2 ? 2 : 1);
	}
	/* another param's change is none of this */
	CHECK(!rlx_session_bind(s, RLX_IO_PARAM, "v", rlx_session_bound(s, RLX_IO_PARAM, "v")));
	CHECK(!e->pack_use[0].packed && e->pack_use[1].packed);
	rlx_session_free(s);
	rlx_session_free(all);
}

/* What is an input may be another in each run. */
static void input(const struct form *f, uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new(f->name);
	struct rlx_session *s;
	int i;

	rlx_output(g, "y", f->emit(g, rlx_input(g, "x", f->x), rlx_input(g, "w", f->w)));
	s = rig_session(g, &(struct rlx_compile_opts){ .size = sizeof(struct rlx_compile_opts),
						       .device = "cpu" });
	CHECK(!code_of(s)->n_param_pack);
	for (i = 0; i < 2; i++) {
		draw(&f->w, w, &seed);
		memcpy(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "w")), w,
		       (size_t)rlx_type_bytes(&f->w));
		draw(&f->x, x, &seed);
		run(s, f, x);
	}
	rlx_session_free(s);
}

TEST(inputs_are_not_kept)
{
	const struct form *f;
	uint32_t n, i;

	for (f = forms(&n), i = 0; i < n; i++)
		input(&f[i], rlx_test_seed() + i);
}

TEST_MAIN()
