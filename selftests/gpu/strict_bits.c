// SPDX-License-Identifier: MIT
/*
 * RLX_COMPILE_STRICT_BITS on a GPU: what it does has the bits that the CPU gives, and what it does
 * not do so is refused by name.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>

#include "selftests/lib/op_case.h"
#include "selftests/lib/strict_bits.h"

static const struct way cpu = { .threads = 1 };

static struct way gpu(void)
{
	return (struct way){ .device = op_case_gpu() };
}

static struct rlx_graph *graph(const char *body)
{
	const struct part p = { .name = body, .text = body };

	return graph_of(&p, 0);
}

/* What @body gives on the device is what it gives on the CPU; all its inputs are f32. */
static void alike(const char *body)
{
	const struct way device = gpu();
	const struct part p = { .name = body, .text = body };
	struct rlx_graph *g = graph(body);
	struct inputs in = { 0 };
	struct outputs a, b;

	inputs_of(&p, &in);
	run(g, in.data, &cpu, 0, &a);
	run(g, in.data, &device, 0, &b);
	CHECKF(!a.status && !b.status, "%s: %s%s", body, a.why, b.why);
	CHECKF(same(&a, &b), "%s", body);
	outputs_free(&a);
	outputs_free(&b);
	for (unsigned int k = 0; k < in.n; k++)
		free(in.data[k]);
	rlx_graph_put(g);
}

TEST(what_moves_is_done)
{
	alike("%1 = input(name=\"x\", type=f32[7,30])\n%2 = transpose(x=%1, perm=[1,0])\n"
	      "%3 = concat(xs=[%2, %2], axis=1)\n%4 = pad(x=%3, pads=[1,2,0,3])\n"
	      "return \"y\"=%4\n");
}

TEST(pointwise_functions)
{
	static const char *const op[] = {
		"neg", "abs", "sign", "exp", "expm1", "log", "sqrt", "rsqrt", "recip", "sin",
		"cos", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "relu", "erf", "ceil",
		"floor", "round", "trunc", "softplus", "softsign", "mish", "hard_swish",
	};
	char body[512];

	for (size_t i = 0; i < sizeof(op) / sizeof(*op); i++) {
		snprintf(body, sizeof(body), "%%1 = input(name=\"x\", type=f32[3000])\n"
			 "%%2 = %s(x=%%1)\nreturn \"y\"=%%2\n", op[i]);
		alike(body);
	}
}

TEST(sums_along_rows)
{
	alike("%1 = input(name=\"x\", type=f32[5,5000])\n%2 = reduce(x=%1, axes=[1], kind=0)\n"
	      "return \"y\"=%2\n");
	alike("%1 = input(name=\"x\", type=f32[500,40])\n%2 = reduce(x=%1, axes=[0], kind=1)\n"
	      "return \"y\"=%2\n");
	alike("%1 = input(name=\"x\", type=f32[5,5000])\n%2 = softmax(x=%1, axis=-1)\n"
	      "return \"y\"=%2\n");
	alike("%1 = input(name=\"x\", type=f32[500,40])\n%2 = log_softmax(x=%1, axis=0)\n"
	      "return \"y\"=%2\n");
}

/* ---- nothing of what is compiled is libm's ---- */

/* Calls that a compiled kernel makes, of which those below are rounded right or exact. */
static void check_image(const char *path)
{
	static const char *const libms[] = {
		"expf", "exp2f", "expm1f", "logf", "log2f", "log1pf", "sinf", "cosf", "tanf",
		"asinf", "acosf", "atanf", "atan2f", "sinhf", "coshf", "tanhf", "erff", "powf",
		"exp", "exp2", "log", "log2", "sin", "cos", "tan", "tanh", "erf", "pow",
	};
	FILE *f = fopen(path, "re");
	char *all = malloc(8 << 20), word[16];
	size_t n;

	CHECK(f && all);
	n = fread(all, 1, 8 << 20, f);
	fclose(f);
	for (size_t i = 0; i < sizeof(libms) / sizeof(*libms); i++) {
		int k = snprintf(word, sizeof(word), "%c%s", 0, libms[i]);

		CHECKF(!memmem(all, n, word, (size_t)k + 1), "%s calls %s", path, libms[i]);
	}
	free(all);
}

/* The emulator's kernels are libraries, which name what they call. */
TEST(no_kernel_calls_libm)
{
	void *lib = dlopen("libnvrtc.so.12", RTLD_NOW);
	char dir[] = "/tmp/rlx-strict-XXXXXX", path[512];
	unsigned int images = 0;
	struct dirent *e;
	DIR *d;

	if (!lib || !dlsym(lib, "rlx_emulated"))
		return;		/* selftests/gpu/nvrtc.c looks at what it makes */
	CHECK(mkdtemp(dir));
	setenv("RLX_EMU_CACHE", dir, 1);
	setenv("XDG_CACHE_HOME", dir, 1);
	alike("%1 = input(name=\"x\", type=f32[90])\n%2 = exp(x=%1)\n%3 = tanh(x=%2)\n"
	      "%4 = erf(x=%3)\n%5 = gelu(x=%4)\n%6 = silu(x=%5)\n%7 = sin(x=%6)\n"
	      "%8 = log(x=%7)\n%9 = softplus(x=%8)\n%10 = mish(x=%9)\n%11 = cos(x=%10)\n"
	      "%12 = expm1(x=%11)\n%13 = sigmoid(x=%12)\n%14 = gelu_tanh(x=%13)\n"
	      "return \"y\"=%14\n");
	alike("%1 = input(name=\"x\", type=f32[9,90])\n%2 = log_softmax(x=%1, axis=-1)\n"
	      "%3 = lrn(x=%2, size=3, alpha=0.1, beta=0.7, bias=1.0)\nreturn \"y\"=%3\n");
	d = opendir(dir);
	CHECK(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_type != DT_REG)
			continue;
		check_image(path);
		images++;
	}
	closedir(d);
	CHECKF(images >= 3, "%u", images);
	snprintf(path, sizeof(path), "rm -r %s", dir);
	CHECK(!system(path));
}

/* ---- programs that are drawn ---- */

/* What the device refuses is counted; false: it gives other bits, which is told. */
static bool agrees(const struct fuzz_case *c, unsigned int *taken)
{
	void *data[FUZZ_LEAVES] = { 0 }, *in[FUZZ_LEAVES];
	const struct way device = gpu();
	struct outputs a, b;
	struct rlx_graph *g;
	uint32_t k, n = 0;
	bool right;

	for (k = 0; k < c->n_leaf; k++) {
		data[k] = fuzz_data(c, k);
		if (!c->leaf[k].fixed)
			in[n++] = data[k];
	}
	g = fuzz_graph(c, data, RLX_NODTYPE, 0, 0);
	run(g, in, &cpu, c->flags, &a);
	run(g, in, &device, c->flags, &b);
	right = (b.status == RLX_ENOSUP && strstr(b.why, "strict bits")) || same(&a, &b);
	if (getenv("RLX_STRICT_PRINT") && b.status)
		printf("# %s\n", b.why);
	if (!right)
		printf("# seed %" PRIu64 ": %s differs %s\n", c->seed, device.device, b.why);
	*taken += !b.status;
	outputs_free(&a);
	outputs_free(&b);
	rlx_graph_put(g);
	for (k = 0; k < c->n_leaf; k++)
		free(data[k]);
	return right;
}

static void draw(void (*one)(struct fuzz_case *c, uint64_t seed), unsigned int wanted)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	uint64_t seed = rlx_test_seed();
	unsigned int n = 0, taken = 0, wrong = 0;

	CHECK(c);
	op_case_host_is_fine();
	while (taken < wanted && n < 8 * wanted && wrong < 3) {
		one(c, rlx_test_rand(&seed));
		if (!is_f32(c))
			continue;
		n++;
		if (!agrees(c, &taken)) {
			fuzz_print(c, stdout);
			wrong++;
		}
	}
	printf("# %u programs of %u\n", taken, n);
	CHECKF(taken == wanted && !wrong, "%u of %u, %u wrong", taken, n, wrong);
	free(c);
}

static unsigned int draws(void)
{
	const char *s = getenv("RLX_STRICT_DRAWS");

	return s ? (unsigned int)atoi(s) : 40;
}

TEST(ops_that_are_drawn) { draw(fuzz_draw_op, draws()); }
TEST(graphs_that_are_drawn) { draw(fuzz_draw_graph, draws()); }

/* ---- what networks are made of: the CPU's digests, rows alone and among others ---- */

static bool is_refused(const struct part *p)
{
	/* what has no kernels with the CPU's order yet; a name that has is an error */
	static const char *const name[] = { "mlp", "columns", "few columns", "attention",
		"convolutions", "resize", "transforms", "recurrent", "solve" };

	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
		if (!strcmp(p->name, name[i]))
			return true;
	return false;
}

static void check_part(const struct part *p)
{
	const struct way device = gpu();
	struct rlx_graph *g = graph_of(p, STRICT_ROWS);
	struct inputs in = { 0 };
	struct outputs whole;

	inputs_of(p, &in);
	run(g, in.data, &device, 0, &whole);
	CHECKF(whole.status == (is_refused(p) ? RLX_ENOSUP : RLX_OK), "%s: %s", p->name, whole.why);
	if (!whole.status) {
		CHECKF(!p->digest || digest_of(&whole) == p->digest, "%s: 0x%016" PRIx64,
		       p->name, digest_of(&whole));
		check_rows(p, &in, &device, 0, STRICT_ROWS, &whole);
		check_rows(p, &in, &device, 7, 1, &whole);
		check_rows(p, &in, &device, 3, 5, &whole);
	}
	outputs_free(&whole);
	for (unsigned int k = 0; k < in.n; k++)
		free(in.data[k]);
	rlx_graph_put(g);
}

TEST(rows_alone_and_among_others)
{
	for (size_t i = 0; i < sizeof(strict_parts) / sizeof(*strict_parts); i++)
		check_part(&strict_parts[i]);
}

static void refused(const char *body, const char *const *words)
{
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = op_case_gpu(),
					 .flags = RLX_COMPILE_STRICT_BITS };
	struct rlx_graph *g = graph(body);
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_compile(g, &opts, &p, &err), RLX_ENOSUP);
	for (; *words; words++)
		CHECKF(strstr(err.text, *words), "no '%s' in: %s", *words, err.text);
	CHECK(!p);
	rlx_graph_put(g);
}

TEST(what_adds_up_otherwise_is_refused_by_name)
{
	refused("%1 = input(name=\"x\", type=f32[4,70])\n%2 = asin(x=%1)\nreturn \"y\"=%2\n",
		(const char *const[]){ op_case_gpu(), "asin", "node ", "f32[4,70]",
				       "compile for cpu", NULL });
}

TEST_MAIN()
