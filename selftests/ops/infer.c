// SPDX-License-Identifier: MIT
/*
 * Arguments that no sample would give: every attribute and every input of every
 * sample is bent in turn. Inference must refuse with a text that names the op, or
 * give types that evaluation can then work with.
 */
#include "ir/element.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

/* Absurd scratch sizes are asked for: the sanitizer too must answer NULL to them. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

enum {
	MAX_BYTES = 1 << 16,	/* larger results are inferred but not computed */
	MAX_SCRATCH = 1 << 26,	/* what operands and results no larger may need */
};

static unsigned int refused, taken;

static void *filled(const struct rlx_type *t)
{
	size_t n = (size_t)rlx_type_bytes(t) + 1;	/* tight: sanitizers see what is past it */
	struct rlx_tensor x = { *t, NULL };
	int64_t i;

	CHECK(!posix_memalign(&x.data, 64, n));
	memset(x.data, 0, n);
	for (i = 0; i < rlx_type_count(t); i++)
		el_set(&x, i, (double)(i % 2));
	return x.data;
}

static void run(const struct op_case *c, unsigned int sample, const struct rlx_infer *q)
{
	struct rlx_tensor in[RLX_SAMPLE_IN] = { 0 }, out[RLX_MAX_OUT];
	struct rlx_error err = { 0 };
	int64_t bytes = 0;
	enum rlx_status st;
	uint32_t k;

	for (k = 0; k < q->n_out && bytes <= MAX_BYTES; k++)
		bytes = rlx_type_bytes(&q->out[k]) > MAX_BYTES ? MAX_BYTES + 1 :
			bytes + rlx_type_bytes(&q->out[k]);
	for (k = 0; k < q->n_in && bytes <= MAX_BYTES; k++)
		if (q->in[k])
			bytes = rlx_type_bytes(q->in[k]) > MAX_BYTES ? MAX_BYTES + 1 : bytes;
	if (bytes > MAX_BYTES)
		return;
	WANT(rlx_op_scratch(q) <= MAX_SCRATCH, "%s sample %u: %zu bytes of scratch",
	     c->def->name, sample, rlx_op_scratch(q));
	for (k = 0; k < q->n_in; k++)
		if (q->in[k])
			in[k] = (struct rlx_tensor){ *q->in[k], filled(q->in[k]) };
	for (k = 0; k < q->n_out; k++)
		out[k] = (struct rlx_tensor){ q->out[k], filled(&q->out[k]) };
	st = rlx_op_eval(&(struct rlx_eval){
			.err = &err, .def = c->def, .args = c->s.args, .n_in = q->n_in,
			.in = in, .n_out = q->n_out, .out = out });
	WANT(!st || (strstr(err.text, c->def->name) && err.status == st),
	     "%s sample %u: status %d without a message: %s", c->def->name, sample, st,
	     err.text);
	for (k = 0; k < q->n_in; k++)
		free(in[k].data);
	for (k = 0; k < q->n_out; k++)
		free(out[k].data);
}

/* What the op stands for has the types that it says. */
static void expand(const struct op_case *c, unsigned int sample, const struct rlx_infer *q)
{
	struct rlx_graph *g = rlx_graph_new("expand");
	rlx_value in[RLX_SAMPLE_IN] = { 0 }, out[RLX_MAX_OUT] = { 0 };
	struct rlx_expand x = { .g = g, .def = c->def, .args = c->s.args, .n_in = q->n_in,
				.n_out = q->n_out, .in = in, .out = out, .out_type = q->out };
	const struct rlx_error *e = rlx_graph_error(g);
	char name[12];
	uint32_t k;

	for (k = 0; k < q->n_in; k++) {
		snprintf(name, sizeof(name), "%u", k);
		if (q->in[k])
			in[k] = rlx_input(g, name, *q->in[k]);
	}
	rlx_expand_op(&x, c->def->impl->expand);
	WANT(e->status != RLX_EBUG, "%s sample %u: %s", c->def->name, sample, e->text);
	for (k = 0; !e->status && k < q->n_out; k++)
		WANT(rlx_type_equal(rlx_type_of(g, out[k]), &q->out[k]),
		     "%s sample %u: output %u has another type expanded", c->def->name, sample, k);
	rlx_graph_put(g);
}

static void infer(const struct op_case *c, unsigned int sample)
{
	const struct rlx_type *types[RLX_SAMPLE_IN] = { 0 };
	struct rlx_error err = { 0 };
	struct rlx_infer q = { .err = &err, .def = c->def, .args = c->s.args,
			       .n_in = c->s.n_in, .in = types };
	enum rlx_status st;
	uint32_t k;

	for (k = 0; k < c->s.n_in; k++)
		types[k] = c->s.in[k].dtype ? &c->s.in[k] : NULL;
	st = rlx_op_infer(&q);
	if (st) {
		refused++;
		WANT(!strncmp(err.text, c->def->name, strlen(c->def->name)) &&
		     err.text[strlen(c->def->name)] == ':',
		     "%s sample %u: the text does not name the op: %s", c->def->name, sample,
		     err.text);
		return;
	}
	taken++;
	CHECK(q.n_out >= 1 && q.n_out <= RLX_MAX_OUT);
	for (k = 0; k < q.n_out; k++)
		CHECKF(rlx_type_bytes(&q.out[k]) >= 0 && q.out[k].dtype, "%s: output %u is no type",
		       c->def->name, k);
	if (c->def->impl->expand)
		expand(c, sample, &q);
	run(c, sample, &q);
}

/* Loops that would run as long as the attribute says. */
static bool endless(const struct op_case *c)
{
	return c->def->index == RLX_OP_while;
}

static void bend_number(struct op_case *c, unsigned int i, const struct rlx_field *f)
{
	static const int64_t v[] = {
		-1, 0, 1, 2, 3, 7, 100, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN,
	};
	static const double x[] = { -1, 0, 0.5, 1e30, -1e30, INFINITY, -INFINITY, NAN };
	void *p = (char *)c->args + f->offset;
	unsigned char keep[16];
	unsigned int k;

	memcpy(keep, p, sizeof(int32_t));
	if (f->kind == RLX_K_i64 || f->kind == RLX_K_f64)
		memcpy(keep, p, sizeof(int64_t));
	for (k = 0; k < (f->kind == RLX_K_f32 || f->kind == RLX_K_f64 ? 8 : 12); k++) {
		switch (f->kind) {
		case RLX_K_i32: *(int32_t *)p = (int32_t)v[k]; break;
		case RLX_K_dtype: *(int32_t *)p = (int32_t)v[k]; break;
		case RLX_K_i64: *(int64_t *)p = v[k]; break;
		case RLX_K_f32: *(float *)p = (float)x[k]; break;
		case RLX_K_f64: *(double *)p = x[k]; break;
		default: break;
		}
		infer(c, i);
		memcpy(p, keep, f->kind == RLX_K_i64 || f->kind == RLX_K_f64 ? 8 : 4);
	}
}

static void bend_list(struct op_case *c, unsigned int i, const struct rlx_field *f)
{
	static const int64_t v[] = { -1, 0, 3, INT32_MAX, INT64_MAX, INT64_MIN };
	struct rlx_ints *l = (void *)((char *)c->args + f->offset), keep = *l;
	int64_t copy[40] = { 0 };
	uint32_t n, k, j;

	CHECK(keep.n < 32);
	if (keep.n)
		memcpy(copy, keep.v, keep.n * sizeof(*copy));
	l->v = copy;
	for (n = 0; n < 34; n += n < 4 ? 1 : 10) {	/* other lengths */
		l->n = n;
		infer(c, i);
	}
	l->n = keep.n + 1;
	infer(c, i);
	l->n = keep.n;
	for (j = 0; j < keep.n; j++)
		for (k = 0; k < sizeof(v) / sizeof(v[0]); k++) {
			copy[j] = v[k];
			infer(c, i);
			copy[j] = keep.v[j];
		}
	*l = keep;
}

static void bend_floats(struct op_case *c, unsigned int i, const struct rlx_field *f)
{
	static const double v[] = { -1, 0, 1e-3, 1e30, INFINITY, NAN };
	struct rlx_floats *l = (void *)((char *)c->args + f->offset), keep = *l;
	double copy[34] = { 0 };
	uint32_t k, j;

	if (keep.n)
		memcpy(copy, keep.v, keep.n * sizeof(*copy));
	l->v = copy;
	l->n = keep.n + 1;
	infer(c, i);
	l->n = keep.n;
	for (j = 0; j < keep.n; j++)
		for (k = 0; k < sizeof(v) / sizeof(v[0]); k++) {
			copy[j] = v[k];
			infer(c, i);
			copy[j] = keep.v[j];
		}
	*l = keep;
}

static void bend_type(struct op_case *c, unsigned int i, const struct rlx_field *f)
{
	struct rlx_type *t = (void *)((char *)c->args + f->offset), keep = *t;

	t->dtype = 99;
	infer(c, i);
	*t = keep;
	t->rank = 9;
	infer(c, i);
	*t = rlx_type(keep.dtype, -1);
	infer(c, i);
	*t = rlx_type(keep.dtype, INT64_MAX, 2);
	infer(c, i);
	*t = keep;
}

static void bend_attributes(struct op_case *c, unsigned int i)
{
	unsigned int k;

	for (k = 0; k < c->def->n_field; k++) {
		const struct rlx_field *f = &c->def->field[k];
		void *p = (char *)c->args + f->offset, *keep;

		if (f->role != RLX_FIELD_ATTR)
			continue;
		switch (f->kind) {
		case RLX_K_bool:
			*(bool *)p = !*(bool *)p;
			infer(c, i);
			*(bool *)p = !*(bool *)p;
			break;
		case RLX_K_ints: bend_list(c, i, f); break;
		case RLX_K_floats: bend_floats(c, i, f); break;
		case RLX_K_type: bend_type(c, i, f); break;
		case RLX_K_graph:
		case RLX_K_blob:
			keep = *(void **)p;
			*(void **)p = NULL;
			infer(c, i);
			*(void **)p = keep;
			break;
		case RLX_K_str: break;
		default: bend_number(c, i, f); break;
		}
	}
}

/* Each input in turn: other dtypes, ranks, sizes; optional ones left out. */
static void bend_inputs(struct op_case *c, unsigned int i)
{
	static const struct rlx_type shapes[] = {
		{ RLX_F32, 0, { 0 } }, { RLX_F32, 1, { 0 } }, { RLX_F32, 1, { 1 } },
		{ RLX_F32, 1, { 5 } }, { RLX_F32, 2, { 3, 0 } }, { RLX_F32, 3, { 1, 2, 3 } },
		{ RLX_F32, 8, { 1, 2, 1, 1, 2, 1, 1, 2 } },
		{ RLX_F32, 2, { 1ll << 40, 1 } }, { RLX_F32, 3, { 1ll << 40, 0, 4 } },
	};
	uint32_t k, s;

	for (k = 0; k < c->s.n_in; k++) {
		struct rlx_type keep = c->s.in[k];
		bool fixed = k < c->def->n_fixed, opt = false;

		for (s = 0; s < c->def->n_field; s++)
			opt = opt || (c->def->field[s].role == RLX_FIELD_OPT && s == k);
		for (s = 1; s < RLX_DTYPE_COUNT && keep.dtype; s++) {
			c->s.in[k].dtype = s;
			infer(c, i);
		}
		for (s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
			c->s.in[k] = shapes[s];
			c->s.in[k].dtype = keep.dtype ? keep.dtype : RLX_F32;
			infer(c, i);
		}
		c->s.in[k] = keep;
		if (fixed && opt && keep.dtype) {
			c->s.in[k].dtype = RLX_NODTYPE;
			infer(c, i);
			c->s.in[k] = keep;
		}
	}
}

static void every_sample(void (*bend)(struct op_case *, unsigned int))
{
	uint64_t seed = rlx_test_seed();
	unsigned int d, i;
	struct op_case c;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; op_case_init(&c, rlx_op_defs[d], i, 0, &seed); i++) {
			if (!endless(&c))
				bend(&c, i);
			op_case_fini(&c);
		}
	CHECKF(refused > 500 && taken > 500, "%u refused, %u taken", refused, taken);
	CHECKF(!op_case_failures, "%u failures", op_case_failures);
}

TEST(attributes) { every_sample(bend_attributes); }
TEST(inputs) { every_sample(bend_inputs); }

static enum rlx_status no_value(struct rlx_expand *q)
{
	return RLX_OK;
}

static enum rlx_status itself(struct rlx_expand *q)
{
	q->out[0] = q->in[0];
	return RLX_OK;
}

static enum rlx_status expanded(enum rlx_status (*rule)(struct rlx_expand *), struct rlx_type want,
				struct rlx_type *got)
{
	struct rlx_graph *g = rlx_graph_new("expand");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 2, 3)), y = RLX_NONE;
	struct rlx_expand q = { .g = g, .def = rlx_op_abs.def, .n_in = 1, .n_out = 1, .in = &x,
				.out = &y, .out_type = &want };
	enum rlx_status st;

	rlx_expand_op(&q, rule);
	st = rlx_graph_error(g)->status;
	if (!st)
		*got = *rlx_type_of(g, y);
	rlx_graph_put(g);
	return st;
}

/* A rule that does not keep to its op's types is told of as such, or rounded. */
TEST(rules_that_are_wrong)
{
	struct rlx_type want = rlx_type(RLX_F32, 2, 3), got;

	CHECK_EQ(expanded(no_value, want, &got), RLX_EBUG);
	CHECK_EQ(expanded(itself, rlx_type(RLX_F64, 3, 2), &got), RLX_EBUG);
	CHECK_EQ(expanded(itself, rlx_type(RLX_F32, 6), &got), RLX_EBUG);
	CHECK_EQ(expanded(itself, want, &got), RLX_OK);
	CHECK(rlx_type_equal(&got, &want));
}

TEST_MAIN()
