// SPDX-License-Identifier: MIT
/*
 * A host that has a driver and no compiler: kernels that were built beforehand, in a
 * folder beside the program; it is copied there, and sees a loader's path on which
 * the compiler is an empty file.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/gpu/kernel_binary.h"
#include "rlx/compile.h"
#include "rlx/run.h"
#include "rt/rt.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

enum { ROWS = 37, INNER = 48, COLS = 65 };

static enum rlx_status product(const char *device, const float *x, float *y,
			       struct rlx_error *err)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = device, .flags = RLX_COMPILE_NO_FUSE,
	};
	struct rlx_graph *g = rlx_graph_new("product");
	rlx_value a = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, INNER));
	rlx_value b = rlx_input(g, "w", rlx_type(RLX_F32, INNER, COLS));
	rlx_value c = rlx_emit(g, matmul, .a = a, .b = b);
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	enum rlx_status st;
	struct rlx_buf out;

	rlx_output(g, "y", rlx_emit(g, softmax, .x = c, .axis = -1));
	CHECK(!rlx_graph_finish(g));
	st = rlx_compile(g, &o, &p, err);
	if (!st) {
		if (strcmp(device, "ref"))	/* text is for chips whose kernels do not wait */
			CHECK_EQ(((struct gpu_device *)p->dev)->in_order,
				 !strcmp(getenv("RLX_TEST_KERNELS") ?: "", "text"));
		CHECK(!rlx_session_new(p, NULL, &s, err));
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, ROWS, INNER), x));
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "w", rlx_type(RLX_F32, INNER, COLS),
				       x + ROWS * INNER));
		out = rlx_session_buf(s, RLX_IO_OUTPUT, "y");
		memset(rlx_buf_ptr(out), 0xa5, out.bytes);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		memcpy(y, rlx_buf_ptr(out), ROWS * COLS * sizeof(float));
	}
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

static bool is_pointwise(const struct rlx_op_def *def)
{
	switch (def->index) {
#define EW1(n, ...) case RLX_OP_##n: return true;
#define EW2 EW1
#define EW3 EW1
#include "ops/elementwise.def"
#undef EW1
#undef EW2
#undef EW3
	case RLX_OP_cast:
	case RLX_OP_conjugate:
	case RLX_OP_norm_sq:
		return true;
	}
	return false;
}

/* Constants, casts, comparisons and broadcasting in one region. */
static void region(const char *device, const float *x, float *y, int32_t *z)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = rlx_graph_new("region");
	struct rlx_type rows = rlx_type(RLX_F32, ROWS, COLS);
	rlx_value a = rlx_input(g, "x", rows), b = rlx_input(g, "b", rlx_type(RLX_F32, COLS));
	rlx_value u = rlx_emit(g, tanh, .x = rlx_emit(g, add, .a = a, .b = b));
	rlx_value s = rlx_emit(g, mul, .a = u, .b = rlx_scalar_const(g, RLX_F32, 1.75));
	rlx_value big = rlx_emit(g, gt, .a = s, .b = rlx_scalar_const(g, RLX_F32, 0.25));
	rlx_value h = rlx_emit(g, cast, .x = rlx_emit(g, cast, .x = s, .to = RLX_BF16),
			       .to = RLX_F32);
	rlx_value r = rlx_emit(g, where, .cond = big, .a = h, .b = rlx_emit(g, neg, .x = a));
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *t;

	rlx_output(g, "y", r);
	rlx_output(g, "z", rlx_emit(g, cast, .x = rlx_emit(g, mul, .a = r,
				    .b = rlx_scalar_const(g, RLX_F32, 100)), .to = RLX_I32));
	CHECK(!rlx_graph_finish(g));
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &t, &err), "%s", err.text);
	CHECK(!rlx_session_set(t, RLX_IO_INPUT, "x", rows, x));
	CHECK(!rlx_session_set(t, RLX_IO_INPUT, "b", rlx_type(RLX_F32, COLS), x + 7));
	CHECKF(!rlx_session_run(t), "%s", rlx_session_error(t)->text);
	memcpy(y, rlx_buf_ptr(rlx_session_buf(t, RLX_IO_OUTPUT, "y")), ROWS * COLS * 4);
	memcpy(z, rlx_buf_ptr(rlx_session_buf(t, RLX_IO_OUTPUT, "z")), ROWS * COLS * 4);
	rlx_session_free(t);
	rlx_program_put(p);
	rlx_graph_put(g);
}

static void compare_region(void)
{
	static float x[ROWS * COLS], y[2][ROWS * COLS];
	static int32_t z[2][ROWS * COLS];
	uint64_t seed = rlx_test_seed();
	int i;

	for (i = 0; i < ROWS * COLS; i++)
		x[i] = (float)rlx_test_uniform(&seed, -2, 2);
	region(op_case_gpu(), x, y[0], z[0]);
	region("cpu", x, y[1], z[1]);
	for (i = 0; i < ROWS * COLS; i++) {
		/* a bf16 may be rounded to the other side */
		CHECKF(fabsf(y[0][i] - y[1][i]) <= 0x1p-7f * fabsf(y[1][i]), "y[%d]", i);
		CHECKF(abs(z[0][i] - z[1][i]) <= 2, "z[%d] is %d, not %d", i, z[0][i], z[1][i]);
	}
}

/* Also what the copy runs, told by RLX_TEST_KERNELS what it has. */
TEST(matmul_and_pointwise)
{
	static float x[(ROWS + COLS) * INNER], y[ROWS * COLS], truth[ROWS * COLS];
	const char *has = getenv("RLX_TEST_KERNELS");
	const struct rlx_gpu_vendor *v = strcmp(op_case_gpu(), "rocm") ? &rlx_gpu_cuda :
								       &rlx_gpu_rocm;
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	enum rlx_status st;
	int i;

	if (has && *has)	/* else ops.c has them; first, for it forks */
		op_case_some(op_case_gpu(), RLX_F32, false, is_pointwise);
	for (i = 0; i < (ROWS + COLS) * INNER; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	st = product(op_case_gpu(), x, y, &err);
	if (has)
		CHECKF(!gpu_rtc_get(v, NULL), "there is a compiler after all");
	if (has && !*has) {
		CHECK_EQ(st, RLX_ENODEV);
		CHECKF(strstr(err.text, "cannot be compiled"), "%s", err.text);
		return;
	}
	CHECKF(!st, "%s", err.text);
	CHECK(!product("ref", x, truth, &err));
	for (i = 0; i < ROWS * COLS; i++)
		CHECKF(fabsf(y[i] - truth[i]) < 1e-5f, "y[%d] is %g, not %g", i, (double)y[i],
		       (double)truth[i]);
	compare_region();
}

#define PREBUILT(n, ...)	{ RLX_G_##n, { .n = { __VA_ARGS__ } } },
static const struct { enum rlx_g_variant variant; union rlx_g_param param; } list[] = {
#include "kernels/gpu/prebuilt.def"
};

/* Those of the list that the program above may ask for here. */
static void build_kernels(const char *dir, bool text)
{
	static const enum rlx_g_variant some[] = { RLX_G_gemm_horizontal_f32, RLX_G_softmax,
						   RLX_G_copy, RLX_G_pointwise_interp,
						   RLX_G_input_gather };
	struct rlx_dev_info here = { .isa = "" };
	struct gpu_target t = { NULL };
	struct rlx_error err = { 0 };
	const struct gpu_chip *c;
	size_t i, k;

	CHECK(gpu_probe(&rlx_gpu_cuda, &here, 0, 1));
	for (c = rlx_gpu_cuda.chips; c->option; c++)
		for (i = 0; i < sizeof(list) / sizeof(list[0]) &&
		     (text ? c->serves == GPU_CHIP_TEXT :
			     c->serves != GPU_CHIP_TEXT && c->major == atoi(here.isa)); i++)
			for (k = 0; k < sizeof(some) / sizeof(some[0]); k++) {
				const struct gpu_kernel of = gpu_kernel_of(list[i].variant,
									   &list[i].param, 0);

				t.chip = c;
				if (list[i].variant == some[k])
					CHECKF(!gpu_image_build(&rlx_gpu_cuda, &t, &of, dir,
								&err), "%s", err.text);
			}
}

static void shell(const char *fmt, const char *dir)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), fmt, dir);
	CHECKF(!system(cmd), "%s", cmd);
}

/* Text that comes with a chip's code is what is compiled for it alone, under the same name. */
TEST(text_with_code)
{
	char dir[] = "/tmp/rlx-prebuilt-XXXXXX", both[64], alone[64];
	const struct gpu_kernel k = gpu_kernel_of(list[0].variant, &list[0].param, 0);
	const struct gpu_chip *c;
	struct rlx_error err = { 0 };
	unsigned int n = 0;

	CHECK(mkdtemp(dir));
	shell("mkdir %s/both %1$s/alone", dir);
	snprintf(both, sizeof(both), "%s/both", dir);
	snprintf(alone, sizeof(alone), "%s/alone", dir);
	for (c = rlx_gpu_cuda.chips; c->option; c++) {
		const struct gpu_target t = { c, gpu_chip_text(&rlx_gpu_cuda, c) };
		const struct gpu_target code = { c }, text = { t.text };

		if (!t.text)
			continue;
		CHECKF(!gpu_image_build(&rlx_gpu_cuda, &t, &k, both, &err), "%s", err.text);
		CHECKF(!gpu_image_build(&rlx_gpu_cuda, &code, &k, alone, &err), "%s", err.text);
		CHECKF(!gpu_image_build(&rlx_gpu_cuda, &text, &k, alone, &err), "%s", err.text);
		n++;
	}
	CHECK(n);
	shell("diff -r %s/both %1$s/alone", dir);
	shell("rm -rf %s", dir);
}

/* A copy of this program, with kernels of a kind, must pass what stands above. */
static void run_copy(const char *has)
{
	char dir[] = "/tmp/rlx-prebuilt-XXXXXX", path[4096];
	const char *old = getenv("LD_LIBRARY_PATH");
	int st;

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "cp /proc/%d/exe %%s/prog", (int)getpid());
	shell("mkdir -p %s/bin %1$s/lib/rlx/gpu %1$s/hidden", dir);
	shell(path, dir);
	shell("mv %s/prog %1$s/bin/", dir);
	shell("cd %s/hidden && touch libnvrtc.so.13 libnvrtc.so.12 libnvrtc.so", dir);
	snprintf(path, sizeof(path), "%s/lib/rlx/gpu", dir);
	if (*has)
		build_kernels(path, !strcmp(has, "text"));
	setenv("RLX_TEST_KERNELS", has, 1);
	snprintf(path, sizeof(path), "%s/cache", dir);
	setenv("XDG_CACHE_HOME", path, 1);
	snprintf(path, sizeof(path), "%s/hidden%s%s", dir, old ? ":" : "", old ? old : "");
	setenv("LD_LIBRARY_PATH", path, 1);
	snprintf(path, sizeof(path), "%s/bin/prog matmul_and_pointwise >%s/log 2>&1", dir, dir);
	st = system(path);
	if (st)
		shell("cat %s/log", dir);
	CHECKF(!st, "with kernels as \"%s\"", has);
	shell("test ! -e %s/cache", dir);	/* nothing was compiled */
	shell("rm -rf %s", dir);
}

TEST(code_for_the_chip)
{
	run_copy("code");
}

TEST(text_that_the_driver_compiles)
{
	run_copy("text");
}

TEST(nothing_is_a_clear_error)
{
	run_copy("");
}

TEST_MAIN()
