// SPDX-License-Identifier: MIT
/* Inputs and outputs that lie by strides: layouts against plain loops, and what is refused. */
#include "base/alloc.h"
#include "base/shape.h"
#include "base/strided.h"
#include "rlx/dlpack.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { ARENA = 1 << 20, CASES = 400 };

static uint64_t seed;

static int64_t pick(int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(&seed) % (uint64_t)(hi - lo + 1));
}

/*
 * A layout of @t: dimensions in any order, gaps, either direction; with @repeat some strides are
 * 0. @v->first is where its lowest element is at the buffer's start. Bytes it reaches over.
 */
static uint64_t draw(const struct rlx_type *t, bool repeat, struct rlx_view *v)
{
	int64_t size = (int64_t)rlx_dtype_size(t->dtype), step = pick(1, 3), low = 0, far = 0;
	uint32_t order[RLX_MAX_RANK], i, k, d;

	for (i = 0; i < t->rank; i++)
		order[i] = i;
	for (i = t->rank; i > 1; i--) {
		k = (uint32_t)pick(0, i - 1);
		d = order[k];
		order[k] = order[i - 1];
		order[i - 1] = d;
	}
	for (i = 0; i < t->rank; i++) {
		d = order[i];
		v->stride[d] = repeat && !pick(0, 3) ? 0 : pick(0, 2) ? step : -step;
		if (v->stride[d])
			step *= t->dim[d] + pick(0, 1);
		if (v->stride[d] < 0)
			low -= v->stride[d] * (t->dim[d] - 1);
		far += (v->stride[d] < 0 ? -v->stride[d] : v->stride[d]) * (t->dim[d] - 1);
	}
	v->first = (uint64_t)(low * size);
	return (uint64_t)((far + 1) * size);
}

static struct rlx_type draw_type(enum rlx_dtype dt, uint32_t rank)
{
	struct rlx_type t = { dt, rank, { 0 } };
	int64_t left = 6000;
	uint32_t i;

	for (i = 0; i < rank; i++) {
		t.dim[i] = pick(0, 5) ? pick(1, left < 40 ? left : 40) : 1;
		left /= t.dim[i];
	}
	return t;
}

/* Elements from the one of index 0 to number @n in row-major order. */
static int64_t place(const struct rlx_type *t, const int64_t *stride, int64_t n)
{
	int64_t at = 0;

	for (uint32_t i = t->rank; i-- > 0; n /= t->dim[i])
		at += n % t->dim[i] * stride[i];
	return at;
}

TEST(copies_of_any_layout)
{
	static const enum rlx_dtype dtypes[] = { RLX_U8, RLX_F16, RLX_F32, RLX_C64, RLX_I64 };
	static unsigned char from[ARENA], to[ARENA], want[ARENA];

	seed = rlx_test_seed();
	for (int c = 0; c < 5 * CASES; c++) {
		struct rlx_type t = draw_type(dtypes[pick(0, 4)], (uint32_t)pick(0, RLX_MAX_RANK));
		size_t size = rlx_dtype_size(t.dtype);
		struct rlx_view a = { 0 }, b = { 0 };
		uint64_t na = draw(&t, true, &a), nb = draw(&t, false, &b), down, up;
		int64_t n = rlx_type_count(&t), i;

		if (na > ARENA || nb > ARENA)
			continue;
		CHECK(rlx_strided_reach(&t, b.stride, &down, &up));
		CHECK(down == b.first && up == nb - b.first);
		CHECK(rlx_strided_apart(&t, b.stride));
		for (i = 0; i < (int64_t)na; i++)
			from[i] = (unsigned char)rlx_test_rand(&seed);
		memset(to, 0x5a, nb);
		memset(want, 0x5a, nb);
		for (i = 0; i < n; i++)
			memcpy(want + (int64_t)b.first + place(&t, b.stride, i) * (int64_t)size,
			       from + (int64_t)a.first + place(&t, a.stride, i) * (int64_t)size,
			       size);
		rlx_strided_copy(&t, to + b.first, b.stride, from + a.first, a.stride);
		CHECKF(!memcmp(to, want, nb), "case %d differs", c);
	}
}

TEST(reach_of_absurd_strides)
{
	struct rlx_type t = rlx_type(RLX_F32, 3, 2), none = rlx_type(RLX_F32, 0, 2);
	uint64_t down, up;

	CHECK(!rlx_strided_reach(&t, (int64_t[]){ INT64_MAX / 2, 1 }, &down, &up));
	CHECK(!rlx_strided_reach(&t, (int64_t[]){ INT64_MIN / 8, -1 }, &down, &up));
	CHECK(!rlx_strided_reach(&t, (int64_t[]){ INT64_MIN, 0 }, &down, &up));
	CHECK(rlx_strided_reach(&none, (int64_t[]){ INT64_MAX, INT64_MAX }, &down, &up));
	CHECK(!down && !up && rlx_strided_dense(&none, (int64_t[]){ 7, 7 }));
	CHECK(!rlx_strided_apart(&t, (int64_t[]){ 0, 1 }));
	CHECK(!rlx_strided_apart(&t, (int64_t[]){ 1, 2 }));
	CHECK(!rlx_strided_apart(&t, (int64_t[]){ -1, 1 }));
	CHECK(rlx_strided_apart(&t, (int64_t[]){ 2, -1 }));
}

/* y = -x; z = x + x */
static struct rlx_session *session_of(const char *device, struct rlx_type t)
{
	struct rlx_graph *g = rlx_graph_new("views");
	rlx_value x = rlx_input(g, "x", t);

	rlx_output(g, "y", rlx_emit(g, neg, .x = x));
	rlx_output(g, "z", rlx_emit(g, add, .a = x, .b = x));
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = device });
}

static struct rlx_arena *arena(uint64_t bytes)
{
	struct rlx_error err = { 0 };
	struct rlx_arena *a = NULL;

	CHECKF(!rlx_arena_new(&(struct rlx_arena_opts){ .size = bytes }, &a, &err), "%s",
	       err.text);
	return a;
}

static uint64_t copied(void)
{
	struct rlx_stats st;

	rlx_stats_read(&st);
	return st.bytes_copied;
}

static void one_session(const char *device, bool submitted)
{
	struct rlx_arena *ax = arena(ARENA), *ay = arena(ARENA);
	struct rlx_view x = { rlx_buf_whole(ax), 0, { 0 } }, y = { rlx_buf_whole(ay), 0, { 0 } };
	float *px = rlx_buf_ptr(x.buf), *py = rlx_buf_ptr(y.buf), *z, *want;
	uint64_t nx, ny, before, point;
	struct rlx_session *s;
	int64_t n, i, dense;
	struct rlx_type t;

	do {
		t = draw_type(RLX_F32, (uint32_t)pick(1, RLX_MAX_RANK));
		nx = draw(&t, true, &x);
		ny = draw(&t, false, &y);
	} while (nx > ARENA || ny > ARENA);
	n = rlx_type_count(&t);
	s = session_of(device, t);
	z = malloc((size_t)n * 4);
	want = malloc(ny);
	CHECK(z && want);
	for (i = 0; i < (int64_t)nx / 4; i++)
		px[i] = (float)rlx_test_uniform(&seed, -1, 1);
	CHECKF(!rlx_session_bind_view(s, RLX_IO_INPUT, "x", &x), "%s",
	       rlx_session_error(s)->text);
	CHECKF(!rlx_session_bind_view_at(s, RLX_IO_OUTPUT, 0, &y), "%s",
	       rlx_session_error(s)->text);
	dense = rlx_strided_dense(&t, x.stride) + rlx_strided_dense(&t, y.stride);
	for (int run = 0; run < 2; run++) {
		px[x.first / 4] += 1;	/* read anew by each run */
		memset(py, 0x5a, ny);
		memset(want, 0x5a, ny);
		for (i = 0; i < n; i++)
			want[(int64_t)y.first / 4 + place(&t, y.stride, i)] =
				-px[(int64_t)x.first / 4 + place(&t, x.stride, i)];
		before = copied();
		if (submitted)
			CHECK(!rlx_session_submit(s, &point) && !rlx_session_wait(s, point, -1));
		else
			CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK_EQ(copied() - before, (2 - dense) * n * 4);
		CHECK(!memcmp(py, want, ny));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "z", t, z));
		for (i = 0; i < n; i++)
			CHECK(z[i] == 2 * px[(int64_t)x.first / 4 + place(&t, x.stride, i)]);
	}
	rlx_arena_put(ax);	/* the session holds them */
	rlx_arena_put(ay);
	CHECK(!rlx_session_run(s));
	rlx_session_free(s);
	free(z);
	free(want);
}

TEST(inputs_and_outputs)
{
	seed = rlx_test_seed();
	for (int i = 0; i < CASES / 4; i++)
		one_session(i % 8 ? "cpu" : "ref", i % 3 == 0);
}

/* Two views of the same elements: an array is transposed in its own place. */
TEST(in_place)
{
	enum { N = 37 };
	struct rlx_type t = rlx_type(RLX_F32, N, N);
	struct rlx_session *s = session_of("cpu", t);
	struct rlx_arena *a = arena(N * N * 4);
	struct rlx_view down = { rlx_buf_whole(a), 0, { 1, N } };
	float *p = rlx_buf_ptr(rlx_buf_whole(a));
	int i, j;

	for (i = 0; i < N * N; i++)
		p[i] = (float)i;
	CHECK(!rlx_session_bind_view(s, RLX_IO_INPUT, "x", &down));
	CHECK(!rlx_session_bind(s, RLX_IO_OUTPUT, "y", rlx_buf_whole(a)));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (i = 0; i < N; i++)
		for (j = 0; j < N; j++)
			CHECK(p[i * N + j] == -(float)(j * N + i));
	rlx_session_free(s);
	rlx_arena_put(a);
}

static void refused(struct rlx_session *s, enum rlx_io io, const char *name,
		    const struct rlx_view *v, enum rlx_status want, const char *word)
{
	enum rlx_status st = rlx_session_bind_view(s, io, name, v);
	const char *text = rlx_session_error(s)->text;

	CHECKF(st == want && strstr(text, word), "%s, not %s: \"%s\" lacks \"%s\"",
	       rlx_status_name(st), rlx_status_name(want), text, word);
}

static void refused_places(struct rlx_session *s, struct rlx_arena *a)
{
	const struct rlx_view good = { { a, 64, 256 }, 0, { 1, 8 } };
	struct rlx_view v;

	refused(s, RLX_IO_INPUT, "x", NULL, RLX_EINVAL, "no view");
	refused(s, RLX_IO_INPUT, "w", &good, RLX_ENOENT, "'w'");
	refused(s, RLX_IO_INPUT, "x", &(struct rlx_view){ .stride = { 1 } }, RLX_EINVAL, "empty");
	refused(s, RLX_IO_INPUT, "x", (v = good, v.stride[1] = 16, &v), RLX_ERANGE, "outside");
	refused(s, RLX_IO_INPUT, "x", (v = good, v.stride[0] = -1, &v), RLX_ERANGE, "outside");
	refused(s, RLX_IO_INPUT, "x", (v = good, v.first = 1 << 20, &v), RLX_ERANGE, "outside");
	refused(s, RLX_IO_INPUT, "x", (v = good, v.first = 32, &v), RLX_ERANGE, "outside");
	refused(s, RLX_IO_INPUT, "x", (v = good, v.stride[1] = INT64_MAX, &v), RLX_ERANGE,
		"outside");
	refused(s, RLX_IO_INPUT, "x", (v = good, v.buf.offset = 66, &v), RLX_ERANGE, "multiple");
	refused(s, RLX_IO_OUTPUT, "y", (v = good, v.stride[0] = 0, &v), RLX_EINVAL, "share");
	CHECK_EQ(rlx_session_bind_view_at(s, RLX_IO_INPUT, 7, &good), RLX_ENOENT);
	CHECK_EQ(rlx_session_bind_view(NULL, RLX_IO_INPUT, "x", &good), RLX_EINVAL);
}

TEST(what_cannot_be_a_view)
{
	struct rlx_graph *g = rlx_graph_new("views");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 8));
	rlx_value w = rlx_param(g, "p", rlx_type(RLX_F32, 4, 8));
	struct rlx_session_opts strict = { .size = sizeof(strict), .strict = true };
	struct rlx_arena *a = arena(4096), *ro;
	const struct rlx_view v = { rlx_buf_whole(a), 0, { 1, 4 } };
	struct rlx_session *s, *t;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = w));
	s = rig_session(g, NULL);
	refused_places(s, a);
	refused(s, RLX_IO_PARAM, "p", &v, RLX_EINVAL, "set it instead");
	CHECK(!rlx_session_feed(s, "y", "x"));
	refused(s, RLX_IO_INPUT, "x", &v, RLX_EINVAL, "fed");
	refused(s, RLX_IO_OUTPUT, "y", &v, RLX_EINVAL, "fed");
	CHECK(!rlx_session_feed(s, NULL, "x"));
	CHECK(!rlx_session_bind_view(s, RLX_IO_INPUT, "x", &v));
	CHECK_EQ(rlx_session_feed(s, "y", "x"), RLX_EINVAL);
	CHECK(strstr(rlx_session_error(s)->text, "input 'x' lies by strides"));
	CHECK(!rlx_session_new(rlx_session_program(s), &strict, &t, &err));
	refused(t, RLX_IO_INPUT, "x", &v, RLX_EACCES, "strict");
	CHECK(!rlx_session_bind_view(t, RLX_IO_INPUT, "x", &(struct rlx_view){
		rlx_buf_whole(a), 64, { 8, 1 } }));	/* dense: nothing is copied */
	CHECK(rlx_buf_ptr(rlx_session_bound(t, RLX_IO_INPUT, "x")) ==
	      (char *)rlx_buf_ptr(v.buf) + 64);
	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = 4096, .provider = "memfd" }, &ro,
			     &err) && !rlx_arena_seal(ro, RLX_SEAL_WRITE, &err));
	refused(s, RLX_IO_OUTPUT, "y", &(struct rlx_view){ rlx_buf_whole(ro), 0, { 1, 4 } },
		RLX_EACCES, "read-only");
	CHECK(!rlx_session_bind_view(s, RLX_IO_INPUT, "x", &(struct rlx_view){
		rlx_buf_whole(ro), 0, { 1, 4 } }));
	rlx_session_free(t);
	rlx_session_free(s);
	rlx_arena_put(ro);
	rlx_arena_put(a);
}

/* Binding, setting and unbinding end a view; no memory for one leaves what there is. */
TEST(how_views_end)
{
	struct rlx_type t = rlx_type(RLX_F32, 2, 2);
	struct rlx_session *s = session_of("cpu", t);
	struct rlx_arena *a = arena(4096);
	const struct rlx_view v = { rlx_buf_whole(a), 0, { 1, 2 } };
	const float ones[4] = { 1, 1, 1, 1 };
	float *p = rlx_buf_ptr(v.buf), y[4];

	p[0] = p[1] = p[2] = p[3] = 5;
	for (int how = 0; how < 4; how++) {
		CHECK(!rlx_session_bind_view(s, RLX_IO_INPUT, "x", &v));
		CHECK(!rlx_session_run(s));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y) && y[3] == -5);
		if (how == 0)
			CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, ones));
		else if (how == 1)
			memcpy(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")), ones, 16);
		else if (how == 2)
			memset((char *)p + 256, 0, 16);
		else
			CHECK(!rlx_session_unbind(s) &&
			      !rlx_session_set(s, RLX_IO_INPUT, "x", t, ones));
		if (how == 2)
			CHECK(!rlx_session_bind(s, RLX_IO_INPUT, "x",
						(struct rlx_buf){ a, 256, 16 }));
		CHECK(!rlx_session_run(s));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y));
		CHECK(y[0] == (how == 2 ? 0 : -1) && y[3] == y[0]);
	}
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, ones));
	for (uint64_t n = 1; n < 8; n++) {
		rlx_alloc_fail_nth(n);
		if (!rlx_session_bind_view(s, RLX_IO_INPUT, "x", &v))
			break;
		rlx_alloc_fail_nth(0);
		CHECK_EQ(rlx_session_error(s)->status, RLX_ENOMEM);
		CHECK(!rlx_session_run(s));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y) && y[2] == -1);
	}
	rlx_alloc_fail_nth(0);
	rlx_session_free(s);
	rlx_arena_put(a);
}

TEST_MAIN()
