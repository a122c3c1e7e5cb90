// SPDX-License-Identifier: MIT
/* Sizes that runners compile ahead, on a thread, and what clones share of what they compile. */
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"
#include "model/compiled.h"
#include "rlx/dims.h"
#include "selftests/io/onnx_write.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

/* Compiles, by calls for the pass that comes first; each waits while @closed. */
struct gate {
	pthread_mutex_t	 lock;
	pthread_cond_t	 changed;
	pthread_t	 main;		/* whose compiles do not wait */
	const char	*first;
	unsigned int	 n, inside;
	bool		 closed;
};

static void gate_init(struct gate *c, bool closed)
{
	*c = (struct gate){ .closed = closed, .main = pthread_self() };
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
}

static void seen(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct gate *c = ctx;

	(void)g;
	pthread_mutex_lock(&c->lock);
	if (!c->first)
		c->first = pass;
	if (!strcmp(pass, c->first)) {
		c->n++;
		c->inside++;
		pthread_cond_broadcast(&c->changed);
		while (c->closed && !pthread_equal(c->main, pthread_self()))
			pthread_cond_wait(&c->changed, &c->lock);
		c->inside--;
	}
	pthread_mutex_unlock(&c->lock);
}

static unsigned int compiles(struct gate *c)
{
	unsigned int n;

	pthread_mutex_lock(&c->lock);
	n = c->n;
	pthread_mutex_unlock(&c->lock);
	return n;
}

static void wait_inside(struct gate *c)
{
	pthread_mutex_lock(&c->lock);
	while (!c->inside)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

static void *open_later(void *arg)
{
	struct gate *c = arg;

	usleep(50000);
	pthread_mutex_lock(&c->lock);
	c->closed = false;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* y[b, s, 8] = x[b, s, 4] w[4, 8] */
static struct rlx_model *layer(void)
{
	struct rlx_graph *g = rlx_graph_new("layer");
	int64_t b = rlx_dim(g, "b", 1, 4096), s = rlx_dim(g, "s", 1, 512);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s, 4));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 4, 8));
	struct rlx_model *m = NULL;
	struct rlx_error err = { 0 };

	rlx_output(g, "y", rlx_emit(g, matmul, .a = x, .b = w));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_model_from_graph(g, &m, &err), "%s", err.text);
	rlx_graph_put(g);
	return m;
}

static struct rlx_runner *runner_of(struct rlx_model *m, const char *device, struct gate *c)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .threads = 1,
				      .dump = c ? seen : NULL, .dump_ctx = c };
	struct rlx_runner *r = NULL;

	CHECK_EQ(rlx_runner_new(m, &o, &r, NULL), 0);
	return r;
}

static void set(struct rlx_runner *r, float w[32], uint64_t *seed)
{
	int i;

	for (i = 0; i < 32; i++)
		w[i] = (float)(rlx_test_rand(seed) % 9) - 4;
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, 8), w, NULL), 0);
}

enum { MOST = 64 * 4 };

/* b x 3 x 4 random numbers; the result must be their product with @w. */
static void run(struct rlx_runner *r, int64_t b, const float w[32], uint64_t *seed)
{
	float x[MOST * 3];
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, b, 3, 4), x }, y;
	struct rlx_error err = { 0 };
	int64_t i, j, k;

	CHECK(b <= 64);
	for (i = 0; i < b * 12; i++)
		x[i] = (float)(rlx_test_rand(seed) % 17) - 8;
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 0, &y) && y.type.dim[0] == b && y.type.dim[1] == 3);
	for (i = 0; i < b * 3; i++)
		for (j = 0; j < 8; j++) {
			double sum = 0;

			for (k = 0; k < 4; k++)
				sum += (double)x[i * 4 + k] * (double)w[k * 8 + j];
			CHECK(((const float *)y.data)[i * 8 + j] == (float)sum);
		}
}

static uint64_t prepare(struct rlx_runner *r, int64_t b)
{
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, b, 3, 4), NULL };
	struct rlx_error err = { 0 };
	uint64_t point = 0;

	CHECKF(!rlx_runner_prepare(r, &in, 1, &point, &err), "%s", err.text);
	CHECK(point);
	return point;
}

static void range_on(const char *device)
{
	uint64_t seed = rlx_test_seed(), point = 0;
	struct rlx_model *m = layer();
	struct gate c;
	struct rlx_runner *r;
	unsigned int fds;
	float w[32];
	int64_t b;

	gate_init(&c, false);
	r = runner_of(m, device, &c);
	for (b = 1; b <= 64; b *= 2)
		point = prepare(r, b);
	CHECK_EQ(point, 7);
	CHECK_EQ(rlx_runner_wait(r, point, -1, NULL), 0);
	CHECK_EQ(rlx_runner_wait(r, 1, 0, NULL), 0);	/* and so are those before */
	CHECK_EQ(compiles(&c), 7);
	set(r, w, &seed);	/* it was no part of them */
	fds = rlx_oom_fds();
	for (b = 1; b <= 64; b *= 2)
		run(r, b, w, &seed);
	CHECK_EQ(rlx_oom_fds(), fds);	/* nor were sessions made */
	CHECK_EQ(rlx_runner_wait(r, prepare(r, 8), -1, NULL), 0);	/* it is there */
	CHECK_EQ(compiles(&c), 7);
	run(r, 3, w, &seed);
	CHECK_EQ(compiles(&c), 8);
	CHECK(rlx_oom_fds() > fds);
	rlx_runner_free(r);
	rlx_model_put(m);
}

TEST(a_range_of_sizes)
{
	range_on("cpu");
	range_on("ref");
}

/* Others run meanwhile; who needs what is under way waits for it, who needs what is queued not. */
TEST(runs_while_it_compiles)
{
	uint64_t seed = rlx_test_seed(), first, second;
	struct rlx_model *m = layer();
	struct rlx_error err = { 0 };
	struct gate c;
	struct rlx_runner *r, *clone;
	pthread_t opener;
	float w[32];

	gate_init(&c, true);
	r = runner_of(m, "cpu", &c);
	set(r, w, &seed);
	CHECK_EQ(rlx_runner_clone(r, &clone, NULL), 0);
	first = prepare(r, 5);
	second = prepare(r, 6);
	wait_inside(&c);
	run(r, 2, w, &seed);
	run(clone, 2, w, &seed);	/* the other's program */
	CHECK_EQ(compiles(&c), 2);
	run(r, 6, w, &seed);
	CHECK_EQ(compiles(&c), 3);
	CHECK_EQ(rlx_runner_wait(r, first, 0, &err), RLX_ETIME);
	CHECKF(strstr(err.text, "point 1 is not compiled yet"), "%s", err.text);
	CHECK_EQ(rlx_runner_wait(r, second, 2000000, NULL), RLX_ETIME);
	CHECK_EQ(pthread_create(&opener, NULL, open_later, &c), 0);
	run(clone, 5, w, &seed);
	CHECK_EQ(rlx_runner_wait(r, second, -1, NULL), 0);
	CHECK_EQ(rlx_runner_wait(r, first, -1, NULL), 0);
	run(r, 5, w, &seed);
	CHECK_EQ(compiles(&c), 3);
	pthread_join(opener, NULL);
	rlx_runner_free(r);
	run(clone, 5, w, &seed);
	rlx_runner_free(clone);
	rlx_model_put(m);
}

struct racer {
	pthread_t		 thread;
	pthread_barrier_t	*start;
	struct rlx_runner	*r;
	const float		*w;
	uint64_t		 seed;
};

static void *race(void *arg)
{
	struct racer *t = arg;
	int64_t b;

	for (b = 1; b <= 24; b++) {
		pthread_barrier_wait(t->start);
		run(t->r, b, t->w, &t->seed);
	}
	return NULL;
}

TEST(clones_compile_a_size_once)
{
	enum { MANY = 4 };
	uint64_t seed = rlx_test_seed();
	struct rlx_model *m = layer();
	struct racer t[MANY];
	pthread_barrier_t start;
	struct gate c;
	float w[32];
	int i;

	gate_init(&c, false);
	pthread_barrier_init(&start, NULL, MANY);
	for (i = 0; i < MANY; i++) {
		t[i] = (struct racer){ .start = &start, .w = w, .seed = seed + (uint64_t)i };
		if (i) {
			CHECK_EQ(rlx_runner_clone(t[0].r, &t[i].r, NULL), 0);
		} else {
			t[0].r = runner_of(m, "cpu", &c);
			set(t[0].r, w, &seed);
		}
	}
	for (i = 0; i < MANY; i++)
		CHECK_EQ(pthread_create(&t[i].thread, NULL, race, &t[i]), 0);
	for (i = 1; i <= 24; i += 5)	/* nobody's turn, or that of what they run now */
		prepare(t[0].r, i);
	for (i = 0; i < MANY; i++)
		pthread_join(t[i].thread, NULL);
	CHECK_EQ(compiles(&c), 24);
	for (i = 0; i < MANY; i++)
		rlx_runner_free(t[i].r);
	pthread_barrier_destroy(&start);
	rlx_model_put(m);
}

TEST(what_fails_says_so)
{
	static const float x[12];
	uint64_t seed = rlx_test_seed(), point;
	struct rlx_model *m = layer();
	struct rlx_runner *r = runner_of(m, "cpu", NULL), *clone = NULL;
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 5000, 3, 4), NULL };
	struct rlx_error err = { 0 };
	float w[32];

	set(r, w, &seed);
	CHECK_EQ(rlx_runner_prepare(r, &in, 1, &point, NULL), 0);
	CHECK_EQ(rlx_runner_wait(r, point, -1, &err), RLX_ERANGE);
	CHECKF(strstr(err.text, "'b' is 5000") && err.status == RLX_ERANGE, "%s", err.text);
	CHECK_EQ(rlx_runner_wait(r, point, 0, NULL), RLX_ERANGE);
	CHECK_EQ(rlx_runner_run(r, &(struct rlx_named_tensor){ "x", in.type, x }, 1, NULL),
		 RLX_ERANGE);
	in.name = NULL;
	CHECK_EQ(rlx_runner_prepare(r, &in, 1, &point, NULL), 0);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_runner_wait(r, point, -1, &err), RLX_ENOENT);
	CHECKF(strstr(err.text, "'x' is missing"), "%s", err.text);
	err = (struct rlx_error){ 0 };
	in = (struct rlx_named_tensor){ "x", rlx_type(RLX_F32, 2, 3, -4), NULL };
	CHECK_EQ(rlx_runner_prepare(r, &in, 1, &point, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "'x'"), "%s", err.text);
	CHECK_EQ(rlx_runner_prepare(r, NULL, 1, &point, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_wait(r, 0, 0, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_wait(r, 3, -1, NULL), RLX_EINVAL);	/* none was given */
	CHECK_EQ(rlx_runner_clone(r, &clone, NULL), 0);
	CHECK_EQ(rlx_runner_wait(clone, 1, -1, NULL), RLX_EINVAL);	/* the other's */
	run(r, 2, w, &seed);
	rlx_runner_free(clone);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* What is queued goes with its runner; what is under way is waited for. Others' go on. */
TEST(closed_while_it_compiles)
{
	uint64_t seed = rlx_test_seed(), point;
	struct rlx_model *m = layer();
	struct rlx_runner *r, *clone;
	struct gate c;
	pthread_t opener;
	int64_t live;
	float w[32];
	int i;

	r = runner_of(m, "cpu", NULL);	/* what the library keeps is there */
	set(r, w, &seed);
	run(r, 1, w, &seed);
	rlx_runner_free(r);
	live = rlx_alloc_live();
	gate_init(&c, true);
	r = runner_of(m, "cpu", &c);
	for (i = 1; i <= 9; i++)
		prepare(r, i);
	CHECK_EQ(rlx_runner_clone(r, &clone, NULL), 0);
	point = prepare(clone, 20);
	wait_inside(&c);
	CHECK_EQ(pthread_create(&opener, NULL, open_later, &c), 0);
	rlx_runner_free(r);
	pthread_join(opener, NULL);
	CHECK_EQ(rlx_runner_wait(clone, point, -1, NULL), 0);
	CHECK_EQ(compiles(&c), 2);
	rlx_runner_free(clone);
	rlx_runner_free(runner_of(m, "cpu", &c));	/* none was prepared */
	CHECK_EQ(rlx_alloc_live(), live);
	rlx_model_put(m);
}

TEST(so_many_are_queued)
{
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 999, 3, 4), NULL };
	struct rlx_model *m = layer();
	struct rlx_error err = { 0 };
	struct rlx_runner *r;
	struct gate c;
	int i;

	gate_init(&c, true);
	r = runner_of(m, "cpu", &c);
	for (i = 1; i <= RLX_MAX_STAGES; i++)
		prepare(r, i);
	CHECK_EQ(rlx_runner_prepare(r, &in, 1, NULL, &err), RLX_EAGAIN);
	CHECKF(strstr(err.text, "512"), "%s", err.text);
	open_later(&c);
	rlx_runner_free(r);
	rlx_model_put(m);
}

static unsigned int held(struct rlx_runner *r)
{
	struct rlx_compiled *c;
	unsigned int n = 0;

	pthread_mutex_lock(&r->compiles->lock);
	for (c = r->compiles->first; c; c = c->next)
		n++;
	pthread_mutex_unlock(&r->compiles->lock);
	return n;
}

/* What nobody runs takes no more than what runs may: here 60 MiB of a session each. */
TEST(what_is_kept_is_bounded)
{
	struct rlx_graph *g = rlx_graph_new("wide");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim(g, "b", 1, 4096), 4096));
	struct rlx_model *m = NULL;
	struct rlx_error err = { 0 };
	struct rlx_runner *r;
	uint64_t point = 0;
	int i;

	rlx_output(g, "y", rlx_emit(g, neg, .x = x));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_model_from_graph(g, &m, NULL), 0);
	rlx_graph_put(g);
	r = runner_of(m, "cpu", NULL);
	for (i = 0; i < 20; i++) {
		struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 1900 + i, 4096), NULL };

		CHECK_EQ(rlx_runner_prepare(r, &in, 1, &point, NULL), 0);
	}
	CHECK_EQ(rlx_runner_wait(r, point, -1, NULL), 0);
	CHECKF(held(r) >= 1 && held(r) <= 5, "%u are kept", held(r));
	CHECK_EQ(rlx_runner_wait(r, 1, -1, &err), RLX_ESTALE);
	CHECKF(strstr(err.text, "gave way"), "%s", err.text);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* A file's: a shape that is an input is asked for; with it, it is compiled for that. */
TEST(contents_that_sizes_depend_on)
{
	static const int64_t dims[2] = { -1, 4 }, two[1] = { 2 };
	static const float x[12] = { 1, 2, 3 };
	char path[] = "/tmp/rlx-ahead-XXXXXX";
	int64_t shape[2] = { 2, 6 };
	struct rlx_named_tensor in[] = { { "x", rlx_type(RLX_F32, 3, 4), NULL },
					 { "s", rlx_type(RLX_I64, 2), NULL } }, y;
	struct out g = { .n = 0 }, o;
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;
	struct rlx_runner *r;
	struct gate c;
	uint64_t point;
	int fd = mkstemp(path), i;

	put_info(&g, 11, "x", ONNX_FLOAT, dims, 2);
	put_info(&g, 11, "s", ONNX_INT64, two, 1);
	put_info(&g, 12, "y", ONNX_FLOAT, dims, 2);
	put_node(&g, "Reshape x s > y");
	model_of(&o, &g, 13);
	CHECK(fd >= 0 && write(fd, o.b, o.n) == (ssize_t)o.n);
	close(fd);
	CHECKF(!rlx_model_open(path, &m, &err), "%s", err.text);
	unlink(path);
	gate_init(&c, false);
	r = runner_of(m, "cpu", &c);
	CHECK_EQ(rlx_runner_prepare(r, in, 2, &point, NULL), 0);
	CHECK_EQ(rlx_runner_wait(r, point, -1, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "contents of input 's'"), "%s", err.text);
	in[1].data = shape;
	CHECK_EQ(rlx_runner_prepare(r, in, 2, &point, NULL), 0);
	shape[1] = 3;		/* it was copied */
	CHECK_EQ(rlx_runner_wait(r, point, -1, NULL), 0);
	shape[1] = 6;
	in[0].data = x;
	CHECK_EQ(rlx_runner_run(r, in, 2, NULL), 0);
	CHECK(rlx_runner_output(r, 0, &y) && y.type.dim[1] == 6 && !memcmp(y.data, x, sizeof(x)));
	CHECK_EQ(compiles(&c), 1);
	shape[0] = 4;
	shape[1] = 3;
	CHECK_EQ(rlx_runner_run(r, in, 2, NULL), 0);
	CHECK(rlx_runner_output(r, 0, &y) && y.type.dim[1] == 3 && !memcmp(y.data, x, sizeof(x)));
	CHECK_EQ(compiles(&c), 2);
	/* one of other contents while some are queued */
	gate_init(&c, true);
	for (i = 0; i < 2; i++) {
		shape[0] = 12 >> i;
		shape[1] = 1 << i;
		CHECK_EQ(rlx_runner_prepare(r, in, 2, &point, NULL), 0);
	}
	wait_inside(&c);
	shape[0] = 3;
	shape[1] = 4;
	CHECK_EQ(rlx_runner_run(r, in, 2, NULL), 0);
	CHECK_EQ(compiles(&c), 2);
	open_later(&c);
	CHECK_EQ(rlx_runner_wait(r, point, -1, NULL), 0);
	for (i = 0; i < 2; i++) {
		shape[0] = 12 >> i;
		shape[1] = 1 << i;
		CHECK_EQ(rlx_runner_run(r, in, 2, NULL), 0);
		CHECK(rlx_runner_output(r, 0, &y) && y.type.dim[1] == 1 << i);
	}
	CHECK_EQ(compiles(&c), 3);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* A session that is there before its params are is the one of the runs after that. */
TEST(params_of_fixed_sizes_are_no_other_program)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_model *m = layer();
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 2, 3, 4), NULL };
	struct rlx_session *s;
	struct rlx_runner *r;
	struct gate c;
	float w[32];

	gate_init(&c, false);
	r = runner_of(m, "cpu", &c);
	s = rlx_runner_session(r, &in, 1, NULL);
	CHECK(s);
	set(r, w, &seed);
	run(r, 2, w, &seed);
	CHECK_EQ(compiles(&c), 1);
	CHECK(rlx_runner_session(r, &in, 1, NULL) == s);
	rlx_runner_free(r);
	rlx_model_put(m);
}

TEST_MAIN()
