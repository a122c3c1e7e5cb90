// SPDX-License-Identifier: MIT
/* Every allocation of opening a model file and running it fails once. */
#include <unistd.h>

#include "rlx/log.h"
#include "rlx/model.h"
#include "selftests/io/onnx_write.h"
#include "selftests/lib/rlx_oom.h"

static const int64_t dims_n4[] = { -1, 4 };

struct work {
	const char	*path, *device;
};

/* Matrix product and bias, then the positions of what is over 0: two segments. */
static void write_model(char *path)
{
	struct out g = { .n = 0 }, o, t = { .n = 0 };
	float w[16];
	int fd = mkstemp(path), i;

	for (i = 0; i < 16; i++)
		w[i] = (float)(i % 5) - 2;
	put_str(&t, 8, "w");
	put_int(&t, 2, ONNX_FLOAT);
	put_int(&t, 1, 4);
	put_int(&t, 1, 4);
	put_bytes(&t, 9, w, sizeof(w));
	put_info(&g, 11, "x", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, dims_n4, 2);
	put_info(&g, 12, "at", ONNX_INT64, dims_n4, 2);
	put_msg(&g, 5, &t);
	put_node(&g, "MatMul x w > m");
	put_node(&g, "Relu m > y");
	put_node(&g, "NonZero y > z");
	put_node(&g, "Transpose z > at");
	model_of(&o, &g, 13);
	CHECK(fd >= 0 && write(fd, o.b, o.n) == (ssize_t)o.n);
	close(fd);
}

static enum rlx_status use(struct rlx_runner *r, struct rlx_error *err)
{
	static const float x[2][12] = {
		{ 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3 }, { -1, 0, 2, 1, 3, -2, 0, 1 },
	};
	enum rlx_status st = RLX_OK;
	struct rlx_named_tensor y;
	int i;

	for (i = 0; !st && i < 3; i++) {	/* two shapes, then one from the cache */
		struct rlx_named_tensor in = {
			"x", rlx_type(RLX_F32, i == 1 ? 2 : 3, 4), x[i == 1],
		};

		st = rlx_runner_run(r, &in, 1, err);
	}
	CHECK(st || (rlx_runner_output(r, 1, &y) && y.type.dtype == RLX_I64 &&
		     y.type.dim[1] == 2));
	return st;
}

static enum rlx_status whole(void *ctx)
{
	const struct work *w = ctx;
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = w->device, .threads = 1,
	};
	struct rlx_model *m = NULL;
	struct rlx_runner *r = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_model_open(w->path, &m, &err);

	if (!st)
		st = rlx_runner_new(m, &o, &r, &err);
	if (!st)
		st = use(r, &err);
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st), err.text);
	CHECKF(st == err.status, "%s, its message %s", rlx_status_name(st),
	       rlx_status_name(err.status));
	rlx_runner_free(r);
	rlx_model_put(m);
	return st;
}

/* What has a kernel, or an expansion, is not run by its evaluator for want of memory. */
static void count_host(void *ctx, enum rlx_log_level level, const char *line)
{
	(void)level;
	if (strstr(line, "run by the reference evaluator"))
		++*(unsigned int *)ctx;
}

static void sweep(const char *device)
{
	unsigned int host = 0;
	char path[] = "/tmp/rlx-oom-XXXXXX";
	struct work w = { path, device };

	write_model(path);
	rlx_log_set(count_host, &host);
	CHECK_EQ(whole(&w), 0);
	CHECK(rlx_oom_sweep(whole, &w) > 50);
	CHECK_EQ(whole(&w), 0);
	rlx_log_set(NULL, NULL);
	CHECKF(!host, "%s: the host ran ops in %u programs", device, host);
	unlink(path);
}

TEST(open_and_run_on_cpu)
{
	sweep("cpu");
}

TEST(open_and_run_on_ref)
{
	sweep("ref");
}

static enum rlx_status open_text(void *path)
{
	struct rlx_model *m = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_model_open(path, &m, &err);

	CHECKF(st == err.status && !m == !!st, "%s, its message %s", rlx_status_name(st),
	       rlx_status_name(err.status));
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st), err.text);
	rlx_model_put(m);
	return st;
}

TEST(text_form)
{
	static const char text[] = "graph \"t\" { dim n[1,64] "
				   "%1 = input(name=\"x\", type=f32[n,2]) %2 = neg(x=%1) return \"y\"=%2 }";
	char path[] = "/tmp/rlx-oom-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, text, sizeof(text) - 1) == sizeof(text) - 1);
	close(fd);
	CHECK_EQ(open_text(path), 0);
	CHECK(rlx_oom_sweep(open_text, path) > 10);
	unlink(path);
}

TEST_MAIN()
