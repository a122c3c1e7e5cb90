// SPDX-License-Identifier: MIT
/* A runner keeps programs for the inputs it saw, up to so many bytes of sessions. */
#include <unistd.h>

#include "model/model.h"
#include "selftests/io/onnx_write.h"

enum { WIDTH = 4096, MIB = 1 << 20 };

/* y = -x, of any number of rows; then where x is not 0: a second stage. */
static struct rlx_model *open_model(bool two)
{
	static const int64_t dims[] = { -1, WIDTH };
	char path[] = "/tmp/rlx-stages-XXXXXX";
	struct out g = { .n = 0 }, o;
	struct rlx_model *m = NULL;
	struct rlx_error err = { 0 };
	int fd = mkstemp(path);

	put_info(&g, 11, "x", ONNX_FLOAT, dims, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, dims, 2);
	put_node(&g, "Neg x > y");
	if (two) {
		put_info(&g, 12, "at", ONNX_INT64, dims, 2);
		put_node(&g, "NonZero y > at");
	}
	model_of(&o, &g, 13);
	CHECK(fd >= 0 && write(fd, o.b, o.n) == (ssize_t)o.n);
	close(fd);
	CHECKF(!rlx_model_open(path, &m, &err), "%s", err.text);
	unlink(path);
	return m;
}

static struct rlx_runner *runner_of(struct rlx_model *m)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	struct rlx_runner *r = NULL;

	CHECK_EQ(rlx_runner_new(m, &o, &r, NULL), 0);
	return r;
}

/* @x: of @rows rows */
static struct rlx_named_tensor input(const float *x, int64_t rows)
{
	return (struct rlx_named_tensor){ "x", rlx_type(RLX_F32, rows, WIDTH), x };
}

static void run(struct rlx_runner *r, float *x, int64_t rows)
{
	struct rlx_named_tensor in = input(x, rows), y;
	struct rlx_error err = { 0 };
	int64_t i;

	for (i = 0; i < rows * WIDTH; i += WIDTH)
		x[i] = (float)(rows + i);
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 0, &y) && y.type.dim[0] == rows);
	for (i = 0; i < rows * WIDTH; i += WIDTH)
		CHECK(((const float *)y.data)[i] == -x[i]);
}

/* 30 numbers of rows, 20 MiB each and more: 600 MiB if all were kept. */
static void run_many(bool two)
{
	struct rlx_model *m = open_model(two);
	struct rlx_runner *r = runner_of(m);
	float *x = calloc(700 * WIDTH, sizeof(*x));
	uint64_t most = 0;
	int64_t k;

	for (k = 0; k < 30; k++) {
		run(r, x, 620 + k);
		most = r->bytes > most ? r->bytes : most;
		run(r, x, 620);		/* asked for all the time: it stays */
	}
	/* what may be kept, and what one run adds to it */
	CHECKF(most <= (256 + (two ? 100 : 30)) * (uint64_t)MIB, "%llu bytes",
	       (unsigned long long)most);
	CHECKF(r->n_stage >= 4 && r->n_stage < 25, "%u stages", r->n_stage);
	rlx_runner_free(r);
	rlx_model_put(m);
	free(x);
}

TEST(stages_are_bounded_by_bytes)
{
	run_many(false);
}

TEST(stages_of_parts_are_bounded_too)
{
	run_many(true);
}

/* One that takes more than all may: it is run, and kept until another comes. */
TEST(a_stage_that_is_too_large)
{
	struct rlx_model *m = open_model(false);
	struct rlx_runner *r = runner_of(m);
	float *x = calloc(9000 * WIDTH, sizeof(*x));
	unsigned int n;

	run(r, x, 9000);
	n = r->n_stage;
	run(r, x, 9000);
	CHECK_EQ(r->n_stage, n);
	run(r, x, 3);
	run(r, x, 4);
	CHECK(r->bytes < 280 * (uint64_t)MIB);
	rlx_runner_free(r);
	rlx_model_put(m);
	free(x);
}

static uint64_t largest;

static enum rlx_status admit(void *ctx, uint64_t bytes, struct rlx_error *err)
{
	largest = bytes > largest ? bytes : largest;
	return bytes <= *(uint64_t *)ctx ? RLX_OK : rlx_fail(err, RLX_ERANGE, "too large");
}

/* One number of rows, and each time another number of zeros: a tree of 30 second stages. */
TEST(stages_of_one_tree_are_bounded)
{
	struct rlx_model *m = open_model(true);
	struct rlx_runner *r = runner_of(m);
	float *x = calloc(620 * WIDTH, sizeof(*x));
	struct rlx_named_tensor in = input(x, 620), at;
	struct rlx_error err = { 0 };
	uint64_t most = 0, max = UINT64_MAX;
	int64_t k, i, n;

	r->admit = admit;
	r->admit_ctx = &max;
	for (k = 0; k < 60; k++) {
		n = (k % 30 + 1) * 64 * WIDTH / 4;	/* and again those whose session went */
		for (i = 0; i < 620 * WIDTH; i++)
			x[i] = i < n;
		CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
		CHECK(rlx_runner_output(r, 1, &at) && at.type.dim[1] == n);
		CHECK_EQ(((const int64_t *)at.data)[n - 1], (n - 1) / WIDTH);
		CHECK_EQ(((const int64_t *)at.data)[2 * n - 1], (n - 1) % WIDTH);
		most = r->bytes > most ? r->bytes : most;
	}
	CHECKF(most <= (256 + 100) * (uint64_t)MIB, "%llu bytes", (unsigned long long)most);
	/* A limit holds for what all stages of a run take. */
	max = largest - 1;
	largest = 0;
	rlx_runner_free(r);
	r = runner_of(m);
	r->admit = admit;
	r->admit_ctx = &max;
	CHECK_EQ(rlx_runner_run(r, &in, 1, &err), RLX_ERANGE);
	CHECK(largest == max + 1 && r->bytes < max);
	rlx_runner_free(r);
	rlx_model_put(m);
	free(x);
}

/* A session that was given away is the caller's until the runner goes. */
TEST(a_session_that_somebody_has_stays)
{
	struct rlx_model *m = open_model(false);
	struct rlx_runner *r = runner_of(m);
	float *x = calloc(700 * WIDTH, sizeof(*x)), y[WIDTH];
	struct rlx_named_tensor in = input(x, 1);
	struct rlx_session *s = rlx_runner_session(r, &in, 1, NULL);
	int64_t k;

	CHECK(s);
	for (k = 0; k < 30; k++)	/* more bytes than are kept */
		run(r, x, 660 + k);
	x[0] = 5;
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 1, WIDTH), x), 0);
	CHECK_EQ(rlx_session_run(s), 0);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 1, WIDTH), y), 0);
	CHECK_EQ(y[0], -5);
	CHECK(rlx_runner_session(r, &in, 1, NULL) == s);
	rlx_runner_free(r);
	rlx_model_put(m);
	free(x);
}

TEST_MAIN()
