// SPDX-License-Identifier: MIT
/*
 * Strings. They are never part of a graph: string inputs are known when a model
 * is instantiated, and all that is done with them is done while importing.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/number.h"
#include "io/onnx/handlers.h"
#include "ir/element.h"

static int64_t count_of(const struct rlx_type *t)
{
	struct rlx_type u = *t;

	u.dtype = RLX_U8;
	return rlx_type_count(&u);
}

static struct rlx_str dup_str(struct onnx_op *q, const char *s, size_t n)
{
	char *p = rlx_bump_new(&q->b->mem, n + 1, 1);

	if (!p) {
		onnx_nomem(q->b);
		return (struct rlx_str){ 0 };
	}
	if (n)
		memcpy(p, s, n);
	return (struct rlx_str){ p, n };
}

/* Shortest decimal that reads back as the same value of its type. */
static struct rlx_str number_text(struct onnx_op *q,
				   const struct rlx_tensor *t, int64_t i)
{
	int digits, most = t->type.dtype == RLX_F64 ? 17 : 9;
	char buf[64];
	double x;

	if (el_is_int(t->type.dtype)) {
		snprintf(buf, sizeof(buf), t->type.dtype == RLX_U64 ? "%llu" : "%lld",
			 (long long)el_geti(t, i));
		return dup_str(q, buf, strlen(buf));
	}
	x = el_get(t, i);
	if (isnan(x))
		return dup_str(q, "NaN", 3);
	if (isinf(x))
		return x > 0 ? dup_str(q, "INF", 3) : dup_str(q, "-INF", 4);
	for (digits = 1; digits < most; digits++) {
		double back;

		snprintf(buf, sizeof(buf), "%.*g", digits, x);
		back = strtod(buf, NULL);
		if (most == 9 ? (float)back == (float)x : back == x)
			break;
	}
	snprintf(buf, sizeof(buf), "%.*g", digits, x);
	return dup_str(q, buf, strlen(buf));
}

static enum rlx_status to_strings(struct onnx_op *q)
{
	struct onnx_val *x = q->in[0], *y;
	struct rlx_str *s;
	struct rlx_tensor t;
	enum rlx_status st;
	locale_t before;
	int64_t i, n;

	st = onnx_need(q->b, &x, 1);
	if (st)
		return st;
	t.type = x->type;
	t.data = (void *)(uintptr_t)rlx_blob_data(x->blob);
	n = count_of(&x->type);
	y = onnx_val_new(q->b, RLX_SPEC_STRINGS);
	s = rlx_bump_new(&q->b->mem, (size_t)n, sizeof(*s));
	if (!y || !s)
		return onnx_nomem(q->b);
	before = rlx_point_begin();
	for (i = 0; i < n; i++)
		s[i] = number_text(q, &t, i);
	rlx_point_end(before);
	y->type = x->type;
	y->str = s;
	q->out[0] = y;
	return RLX_OK;
}

/* Does all of @s say an integer that @dt holds? Of 64 bits, which doubles do not. */
static bool whole_number(const char *s, enum rlx_dtype dt, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = dt == RLX_U64 ? strtoull(s, &end, 10) : (uint64_t)strtoll(s, &end, 10);
	/* strtoull() takes -1 for the largest */
	return !errno && end != s && !*end && (dt != RLX_U64 || !strchr(s, '-'));
}

/* Numbers of texts: @u where @whole, else @v, which is cut to @dt as any other double. */
static rlx_value numbers(struct onnx_op *q, struct rlx_type t, enum rlx_dtype dt, const double *v,
			 const uint64_t *u, const bool *whole)
{
	struct rlx_graph *g = q->b->ctx->g;
	rlx_value y, exact;

	t.dtype = RLX_F64;
	y = E(q, cast, .x = rlx_constant(g, t, v), .to = dt);
	if (dt != RLX_I64 && dt != RLX_U64)
		return y;
	t.dtype = dt;
	exact = rlx_constant(g, t, u);
	t.dtype = RLX_BOOL;
	return E(q, where, .cond = rlx_constant(g, t, whole), .a = exact, .b = y);
}

static enum rlx_status from_strings(struct onnx_op *q, enum rlx_dtype dt)
{
	struct onnx_val *x = q->in[0];
	int64_t i, n = count_of(&x->type);
	uint64_t *u;
	bool *whole;
	double *v;

	v = rlx_bump_new(&q->b->mem, (size_t)n, sizeof(*v));
	u = rlx_bump_new(&q->b->mem, (size_t)n, sizeof(*u));
	whole = rlx_bump_new(&q->b->mem, (size_t)n, sizeof(*whole));
	if (!v || !u || !whole)
		return onnx_nomem(q->b);
	for (i = 0; i < n; i++) {
		struct rlx_str s = dup_str(q, x->str[i].p, x->str[i].n);
		char *end;

		if (!s.p)
			return RLX_ENOMEM;
		v[i] = rlx_strtod(s.p, &end);
		if (end == s.p || end != s.p + s.n)
			return op_err(q, RLX_EINVAL, "'%.*s' is no number", ONNX_STR(s));
		whole[i] = whole_number(s.p, dt, &u[i]);
	}
	onnx_out(q, 0, numbers(q, x->type, dt, v, u, whole));
	return RLX_OK;
}

/* Without saturation what rounds past the largest float8 is no number. */
static rlx_value overflow(struct onnx_op *q, rlx_value x, rlx_value y, int64_t to)
{
	enum rlx_dtype dt = onnx_type(q, x).dtype;
	bool e5 = to == ONNX_F8E5M2;
	rlx_value far = E(q, abs, .x = x), sign, bad;

	/* Half way to the next value ties to it, or back, by the last bit. */
	far = e5 ? E(q, ge, .a = far, .b = onnx_num(q, dt, 61440)) :
	      E(q, gt, .a = far, .b = onnx_num(q, dt, 464));
	sign = E(q, sign, .x = x);
	bad = E(q, mul, .a = sign, .b = onnx_num(q, dt, (double)INFINITY));
	bad = e5 ? bad : E(q, mul, .a = bad, .b = onnx_num(q, dt, 0));
	return E(q, where, .cond = far,
		 .a = E(q, cast, .x = bad, .to = onnx_type(q, y).dtype),
		 .b = y);
}

/* Values of 4 and 2 bits are bytes here: keep the low bits, with their sign. */
static rlx_value narrow(struct onnx_op *q, rlx_value x, int64_t to)
{
	unsigned int bits = onnx_dtype_bits(to);
	bool is_signed = to == ONNX_INT4 || to == ONNX_INT2;
	enum rlx_dtype dt = is_signed ? RLX_I8 : RLX_U8;
	double low = (1u << bits) - 1, half = 1u << (bits - 1);

	if (!rlx_dtype_is_int(onnx_type(q, x).dtype))
		x = E(q, cast, .x = x, .to = RLX_I32);
	x = E(q, bit_and, .a = x,
	      .b = onnx_num(q, onnx_type(q, x).dtype, low));
	x = E(q, cast, .x = x, .to = dt);
	if (!is_signed)
		return x;
	x = E(q, bit_xor, .a = x, .b = onnx_num(q, dt, half));
	return E(q, sub, .a = x, .b = onnx_num(q, dt, half));
}

static enum rlx_status cast_to(struct onnx_op *q, int64_t to)
{
	enum rlx_dtype dt = onnx_dtype_to_rlx(to);
	bool saturate = onnx_attr_i(q, "saturate", 1);
	rlx_value x, y;

	if (!onnx_given(q, 0) || !q->n_out)
		return op_err(q, RLX_EPARSE, "no input");
	if (to == ONNX_STRING && q->in[0]->kind == RLX_SPEC_STRINGS)
		return onnx_identity(q);
	if (to == ONNX_STRING && q->in[0]->kind != RLX_SPEC_TENSOR)
		return op_err(q, RLX_ETYPE, "the input is no tensor");
	if (to == ONNX_STRING)
		return to_strings(q);
	if (!dt)
		return op_err(q, RLX_ENOSUP, "attribute to=%s is not supported",
			      onnx_dtype_name(to));
	if (q->in[0]->kind == RLX_SPEC_STRINGS)
		return from_strings(q, dt);
	x = onnx_in(q, 0);
	if (onnx_dtype_bits(to) < 8) {
		onnx_out(q, 0, narrow(q, x, to));
		if (q->out[0])
			q->out[0]->elem = to;
		return RLX_OK;
	}
	if (q->in[0]->kind == RLX_SPEC_TENSOR && q->in[0]->type.dtype == dt)
		return onnx_identity(q);
	y = E(q, cast, .x = x, .to = dt);
	if (!saturate && (to == ONNX_F8E4M3FN || to == ONNX_F8E5M2) &&
	    rlx_dtype_is_float(onnx_type(q, x).dtype))
		y = overflow(q, x, y, to);
	onnx_out(q, 0, y);
	return RLX_OK;
}

enum rlx_status onnx_cast(struct onnx_op *q)
{
	const struct onnx_attr *a = onnx_attr_of(q, "to");
	int64_t to;

	/* Before opset 6 the type was given by name. */
	if (a && a->type == ONNX_ATTR_STRING) {
		for (to = 1; to <= ONNX_BFLOAT16; to++) {
			const char *name = onnx_dtype_name(to);
			size_t i;

			for (i = 0; i < a->s.n && name[i]; i++)
				if ((a->s.p[i] | 0x20) != (name[i] | 0x20))
					break;
			if (i == a->s.n && !name[i])
				return cast_to(q, to);
		}
	}
	return cast_to(q, onnx_attr_i(q, "to", 0));
}

enum rlx_status onnx_cast_like(struct onnx_op *q)
{
	int64_t to;

	if (!onnx_given(q, 1))
		return op_err(q, RLX_EPARSE, "no second input");
	if (q->in[1]->kind == RLX_SPEC_STRINGS)
		return cast_to(q, ONNX_STRING);
	/* Several types of ONNX are one of ours. */
	to = q->in[1]->elem;
	if (onnx_dtype_to_rlx(to) != q->in[1]->type.dtype)
		for (to = 1; to <= ONNX_F8E5M2; to++)
			if (onnx_dtype_to_rlx(to) == q->in[1]->type.dtype)
				break;
	return cast_to(q, to);
}

static bool str_same(struct rlx_str a, struct rlx_str b, bool fold)
{
	size_t i;

	if (a.n != b.n || !fold)
		return onnx_str_eq(a, b);
	for (i = 0; i < a.n; i++) {
		unsigned char x = (unsigned char)a.p[i];
		unsigned char y = (unsigned char)b.p[i];

		if (x >= 'A' && x <= 'Z')
			x |= 0x20;
		if (y >= 'A' && y <= 'Z')
			y |= 0x20;
		if (x != y)
			return false;
	}
	return true;
}

/* Case of ASCII letters only; other characters keep theirs. */
static struct rlx_str change_case(struct onnx_op *q, struct rlx_str s, int how)
{
	struct rlx_str d;
	char *p;
	size_t i;

	if (!how)
		return s;
	d = dup_str(q, s.p, s.n);
	p = (char *)(uintptr_t)d.p;
	for (i = 0; i < d.n; i++) {
		if (how == 1 && p[i] >= 'A' && p[i] <= 'Z')
			p[i] |= 0x20;
		if (how == 2 && p[i] >= 'a' && p[i] <= 'z')
			p[i] &= ~0x20;
	}
	return d;
}

/* What is done while importing is within bounds. */
#define MOST_CELLS	(1 << 24)
#define MOST_WORK	1e9

enum rlx_status onnx_string_normalizer(struct onnx_op *q)
{
	static const char *const cases[] = { "NONE", "LOWER", "UPPER", NULL };
	const struct onnx_attr *stop = onnx_attr_of(q, "stopwords");
	int how = onnx_attr_enum(q, "case_change_action", cases, 0);
	bool exact = onnx_attr_i(q, "is_case_sensitive", 0);
	struct onnx_val *x = onnx_given(q, 0) ? q->in[0] : NULL, *y;
	struct rlx_str *s;
	int64_t i, n, kept = 0;
	size_t k;

	onnx_attr_of(q, "locale");
	if (!x || x->kind != RLX_SPEC_STRINGS || x->type.rank < 1 ||
	    x->type.rank > 2 || (x->type.rank == 2 && x->type.dim[0] != 1))
		return op_err(q, RLX_ESHAPE, "the input is no [C] or [1, C] "
			      "tensor of strings");
	n = count_of(&x->type);
	if (stop && (double)n * (double)stop->nstrings > MOST_WORK)
		return op_err(q, RLX_ENOSUP, "%lld texts and %zu stopwords are more than is "
			      "supported", (long long)n, stop->nstrings);
	y = onnx_val_new(q->b, RLX_SPEC_STRINGS);
	s = rlx_bump_new(&q->b->mem, (size_t)n + 1, sizeof(*s));
	if (!y || !s)
		return onnx_nomem(q->b);
	for (i = 0; i < n; i++) {
		for (k = 0; stop && k < stop->nstrings; k++)
			if (str_same(x->str[i], stop->strings[k], !exact))
				break;
		if (!stop || k == stop->nstrings)
			s[kept++] = change_case(q, x->str[i], how);
	}
	/* Nothing left is one empty string. */
	y->type = x->type;
	y->type.dim[x->type.rank - 1] = kept ? kept : 1;
	y->str = s;
	if (q->n_out)
		q->out[0] = y;
	return RLX_OK;
}

/* ---- TfIdfVectorizer ---- */

struct tfidf {
	const struct onnx_attr	*strings, *ints;
	struct rlx_ints		 counts, columns;
	struct rlx_floats	 weights;
	int64_t			 min, max, skips;
	uint32_t		 width;		/* columns of the output */
	const struct onnx_val	*x;
	const int64_t		*v;		/* its integers */
};

/* Does the n-gram at @at with this step equal pool entry @pool? */
static bool gram_is(const struct tfidf *f, int64_t at, int64_t step, int64_t n,
		    size_t pool)
{
	int64_t i;

	for (i = 0; i < n; i++) {
		int64_t k = at + i * step;

		if (f->strings ? !onnx_str_eq(f->x->str[k],
					      f->strings->strings[pool + i]) :
		    f->v[k] != f->ints->ints[pool + i])
			return false;
	}
	return true;
}

/* Count the n-grams of one row of @len elements from @base. */
static void count_row(const struct tfidf *f, int64_t base, int64_t len,
		      double *out)
{
	size_t size = f->strings ? f->strings->nstrings : f->ints->nints;
	int64_t n, skip, at, col = 0;
	size_t from, to, p;

	for (n = 1; n <= f->counts.n; n++) {
		from = (size_t)f->counts.v[n - 1];
		to = n < f->counts.n ? (size_t)f->counts.v[n] : size;
		for (p = from; p + n <= to; p += n, col++) {
			if (n < f->min || n > f->max)
				continue;
			/* All skips are alike for single elements. */
			for (skip = 0; skip <= (n > 1 ? f->skips : 0); skip++)
				for (at = 0; at + (n - 1) * (skip + 1) < len;
				     at++)
					out[f->columns.v[col]] +=
						gram_is(f, base + at,
							skip + 1, n, p);
		}
	}
}

static enum rlx_status tfidf_init(struct onnx_op *q, struct tfidf *f)
{
	size_t size, grams = 0;
	uint32_t i;

	f->strings = onnx_attr_of(q, "pool_strings");
	f->ints = onnx_attr_of(q, "pool_int64s");
	f->counts = onnx_attr_ints(q, "ngram_counts");
	f->columns = onnx_attr_ints(q, "ngram_indexes");
	f->weights = onnx_attr_floats(q, "weights");
	f->min = onnx_attr_i(q, "min_gram_length", 1);
	f->max = onnx_attr_i(q, "max_gram_length", 1);
	f->skips = onnx_attr_i(q, "max_skip_count", 0);
	if (!f->strings == !f->ints || f->skips < 0 || f->skips > 1 << 16)
		return op_err(q, RLX_EPARSE, "one pool and a skip count are "
			      "needed");
	size = f->strings ? f->strings->nstrings : f->ints->nints;
	for (i = 0; i < f->counts.n; i++) {
		int64_t from = f->counts.v[i];
		int64_t to = i + 1 < f->counts.n ? f->counts.v[i + 1] :
			     (int64_t)size;

		if (from < 0 || to < from || (size_t)to > size)
			return op_err(q, RLX_EPARSE, "ngram_counts do not fit "
				      "the pool");
		grams += (size_t)(to - from) / (i + 1);
	}
	if (f->columns.n < grams)
		return op_err(q, RLX_EPARSE, "%u ngram_indexes for %zu n-grams",
			      f->columns.n, grams);
	for (i = 0; i < f->columns.n; i++) {
		if (f->columns.v[i] < 0 || f->columns.v[i] > 1 << 24)
			return op_err(q, RLX_ERANGE, "ngram_indexes[%u]", i);
		if (f->columns.v[i] >= f->width)
			f->width = (uint32_t)f->columns.v[i] + 1;
	}
	if (f->weights.n && f->weights.n != f->columns.n)
		return op_err(q, RLX_EPARSE, "%u weights for %u n-grams",
			      f->weights.n, f->columns.n);
	return RLX_OK;
}

/* Weights of output columns: of the first n-gram that has it, 1 without. NULL: no memory. */
static double *column_weights(struct onnx_op *q, const struct tfidf *f)
{
	double *w = rlx_bump_new(&q->b->mem, f->width, sizeof(*w));
	uint32_t i;

	for (i = 0; w && i < f->width; i++)
		w[i] = 1;
	for (i = f->weights.n; w && i > 0; i--)
		w[f->columns.v[i - 1]] = f->weights.v[i - 1];
	return w;
}

/* Bounds what count_row() does for all rows; n-grams of a length that has none are looked for. */
static double work_of(const struct tfidf *f, int64_t rows, int64_t len)
{
	return (double)rows * (double)(len + 1) * ((double)f->columns.n + f->counts.n) *
	       (double)(f->skips + 1);
}

enum rlx_status onnx_tfidf(struct onnx_op *q)
{
	static const char *const modes[] = { "TF", "IDF", "TFIDF", NULL };
	int mode = onnx_attr_enum(q, "mode", modes, 0);
	struct onnx_val *x = onnx_given(q, 0) ? q->in[0] : NULL;
	struct tfidf f = { 0 };
	int64_t rows, len, i, k;
	struct rlx_type t;
	enum rlx_status st;
	uint32_t n;
	double *out, *weight;

	st = tfidf_init(q, &f);
	if (st)
		return st;
	if (!x || x->kind != (f.strings ? RLX_SPEC_STRINGS : RLX_SPEC_TENSOR) ||
	    x->type.rank < 1 || x->type.rank > 2)
		return op_err(q, RLX_ETYPE, "the input does not fit the pool");
	if (!f.strings) {
		st = onnx_ints(q, 0, &f.v, &n);
		if (st)
			return st;
	}
	f.x = x;
	rows = x->type.rank == 2 ? x->type.dim[0] : 1;
	len = x->type.dim[x->type.rank - 1];
	if (rows > MOST_CELLS / (f.width + 1) || len > MOST_CELLS ||
	    work_of(&f, rows, len) > MOST_WORK)
		return op_err(q, RLX_ENOSUP, "%lld rows of %lld are more than "
			      "is supported", (long long)rows, (long long)len);
	out = rlx_bump_new(&q->b->mem, (size_t)rows * f.width,
			   sizeof(*out));
	weight = column_weights(q, &f);
	if (!out || !weight)
		return onnx_nomem(q->b);
	for (i = 0; i < rows; i++) {
		double *row = out + i * f.width;

		count_row(&f, i * len, len, row);
		for (k = 0; k < f.width; k++) {
			if (mode == 1)
				row[k] = row[k] > 0;
			if (mode)
				row[k] *= weight[k];
		}
	}
	t = x->type.rank == 2 ? rlx_type(RLX_F64, rows, f.width) :
	    rlx_type(RLX_F64, f.width);
	onnx_out(q, 0, E(q, cast, .x = rlx_constant(q->b->ctx->g, t, out),
			 .to = RLX_F32));
	return RLX_OK;
}
