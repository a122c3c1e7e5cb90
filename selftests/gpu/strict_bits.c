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

/* Numbers of all sizes: some of any bits, of which NaNs, infinities and what is denormal are. */
static void fill_any(float *x, int64_t n, uint64_t seed)
{
	static const float some[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 8192.5f, -3e38f, 1e-40f };
	uint64_t r;
	uint32_t u;

	for (int64_t i = 0; i < n; i++) {
		r = rlx_test_rand(&seed);
		u = (uint32_t)(r >> 32);
		memcpy(&x[i], &u, sizeof(u));
		if (r % 16 > 3)
			x[i] = (float)(int32_t)u * 0x1p-28f;
		else if (r % 16 == 3)
			x[i] = some[r / 16 % (sizeof(some) / sizeof(*some))];
	}
}

static struct rlx_graph *graph(const char *body)
{
	const struct part p = { .name = body, .text = body };

	return graph_of(&p, 0);
}

/*
 * What @body gives on the device is what it gives on the CPU; all its inputs are f32. @any: of any
 * bits, by that seed; 0: within 1
 */
static void alike_for(const char *body, uint64_t any)
{
	const struct way device = gpu();
	const struct part p = { .name = body, .text = body };
	struct rlx_graph *g = graph(body);
	struct inputs in = { 0 };
	struct outputs a, b;

	inputs_of(&p, &in);
	for (unsigned int k = 0; k < in.n && any; k++)
		fill_any(in.data[k], in.count[k], any + k);
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

static void alike(const char *body)
{
	alike_for(body, 0);
}

TEST(what_moves_is_done)
{
	alike("%1 = input(name=\"x\", type=f32[7,30])\n%2 = transpose(x=%1, perm=[1,0])\n"
	      "%3 = concat(xs=[%2, %2], axis=1)\n%4 = pad(x=%3, pads=[1,2,0,3])\n"
	      "return \"y\"=%4\n");
}

/* What integers go into and come out of rounds as well, if there are floats between. */
#define SINE_OF(x, to)	"%5 = cast(x=" x ", to=f32)\n%6 = sin(x=%5)\n%7 = mul(a=%6, b=%2)\n" \
			"%8 = cast(x=%7, to=i32)\nreturn \"" to "\"=%8\n"
#define BILLION		"%2 = constant(type=f32[1], data=hex\"286b6e4e\")\n"

TEST(floats_between_integers)
{
	alike("%1 = input(name=\"x\", type=f32[5000])\n" BILLION "%3 = mul(a=%1, b=%2)\n"
	      "%4 = cast(x=%3, to=i32)\n" SINE_OF("%4", "y"));
}

TEST(maxima_of_zeros)
{
	const struct way device = gpu();

	for (int width = 7; width <= 16; width++)
		CHECKF(maxima_of_zeros_alike(&cpu, &device, width), "rows of %d", width);
}

/* Nine functions of x in one kernel, of which k says which one an element is of. */
enum { N = 4096, NINE = 9 };

static int nine_of(const char *const *op, char *text, size_t room)
{
	int at = snprintf(text, room, "%%1 = input(name=\"x\", type=f32[%d])\n"
			  "%%2 = input(name=\"k\", type=f32[%d])\n", N, N), v = 2, f, r, i;

	for (i = 1; i < NINE; i++)
		at += snprintf(text + at, room - (size_t)at,
			       "%%%d = input(name=\"c%d\", type=f32[1])\n", ++v, i);
	for (f = v + 1, i = 0; i < NINE; i++)
		at += snprintf(text + at, room - (size_t)at, "%%%d = %s(x=%%1)\n", ++v, op[i]);
	for (r = v, i = NINE - 1; i; i--, r = v) {
		at += snprintf(text + at, room - (size_t)at, "%%%d = lt(a=%%2, b=%%%d)\n"
			       "%%%d = where(cond=%%%d, a=%%%d, b=%%%d)\n", v + 1, 2 + i, v + 2,
			       v + 1, f + i - 1, r);
		v += 2;
	}
	return at + snprintf(text + at, room - (size_t)at, "return \"y\"=%%%d\n", v);
}

static void check_nine(const char *const *op)
{
	static float x[N], k[N], c[NINE];
	const struct way device = gpu();
	uint64_t seed = rlx_test_seed();
	void *in[1 + NINE] = { x, k };
	struct outputs a, b;
	struct rlx_graph *g;
	char body[2000];

	nine_of(op, body, sizeof(body));
	g = graph(body);
	fill_any(x, N, seed);
	for (int i = 0; i < N; i++)
		k[i] = (float)(rlx_test_rand(&seed) % NINE) + 0.5f;
	for (int i = 1; i < NINE; i++) {
		c[i] = (float)i;
		in[1 + i] = &c[i];
	}
	run(g, in, &cpu, 0, &a);
	run(g, in, &device, 0, &b);
	CHECKF(!a.status && !b.status, "%s%s", a.why, b.why);
	for (int i = 0; i < N; i++)
		CHECKF(!memcmp((float *)a.t[0].data + i, (float *)b.t[0].data + i, 4),
		       "%s(%a) is %a, not %a", op[(int)k[i]], (double)x[i],
		       (double)((float *)b.t[0].data)[i], (double)((float *)a.t[0].data)[i]);
	outputs_free(&a);
	outputs_free(&b);
	rlx_graph_put(g);
}

TEST(pointwise_functions)
{
	static const char *const op[] = {
		"neg", "abs", "sign", "exp", "expm1", "log", "sqrt", "rsqrt", "recip", "sin",
		"cos", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "relu", "erf", "ceil",
		"floor", "round", "trunc", "softplus", "softsign", "mish", "hard_swish", "exp",
	};

	for (size_t i = 0; i < sizeof(op) / sizeof(*op); i += NINE)
		check_nine(op + i);
}

static unsigned int draws(void)
{
	const char *s = getenv("RLX_STRICT_DRAWS");

	return s ? (unsigned int)atoi(s) : 20;
}

/* ---- sums, of shapes that are drawn ---- */

static int64_t below(uint64_t *seed, int64_t n)
{
	return (int64_t)(rlx_test_rand(seed) % (uint64_t)n);
}

/* Lengths about where runs, blocks, parts and lanes end, and any. */
static int64_t length(uint64_t *seed, int64_t most)
{
	static const int64_t ends[] = { 1, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384 };
	const int64_t n = below(seed, 3) ? ends[below(seed, 11)] + below(seed, 3) - 1 :
					   1 + below(seed, most);

	return n < 1 ? 1 : n > most ? most : n;
}

static int draw_shape(uint64_t *seed, int rank, char *text, size_t room)
{
	int64_t left = 60000, n;
	int at = 0;

	for (int d = 0; d < rank; d++) {
		n = length(seed, left);
		left = left / n < 1 ? 1 : left / n;
		at += snprintf(text + at, room - (size_t)at, "%s%lld", d ? "," : "", (long long)n);
	}
	return at;
}

static void draw_sum(uint64_t *seed)
{
	static const char *const op[] = {
		"reduce(x=%%1, axes=[%d], kind=0)", "reduce(x=%%1, axes=[%d], kind=1)",
		"reduce(x=%%1, axes=[%d], kind=2)", "reduce(x=%%1, axes=[%d], kind=3)",
		"reduce(x=%%1, axes=[%d], kind=4)", "reduce(x=%%1, axes=[0,%d], kind=1)",
		"softmax(x=%%1, axis=%d)", "log_softmax(x=%%1, axis=%d)",
		"cumsum(x=%%1, axis=%d)", "cumprod(x=%%1, axis=%d)", "arg_reduce(x=%%1, axis=%d)",
		"sum_squares(x=%%1, axes=[%d])", "layer_norm(x=%%1, axis=%d, eps=1e-05)",
		"rms_norm(x=%%1, axis=%d, eps=1e-05)",
	};
	const int rank = 2 + (int)below(seed, 3), axis = 1 + (int)below(seed, rank - 1);
	char shape[64], body[512], what[128];

	draw_shape(seed, rank, shape, sizeof(shape));
	snprintf(what, sizeof(what), op[below(seed, sizeof(op) / sizeof(*op))], axis);
	snprintf(body, sizeof(body), "%%1 = input(name=\"x\", type=f32[%s])\n%%2 = %s\n"
		 "return \"y\"=%%2\n", shape, what);
	alike_for(body, below(seed, 2) ? rlx_test_rand(seed) : 0);
}

TEST(sums_that_are_drawn)
{
	uint64_t seed = rlx_test_seed();

	/* rows enough for a block each */
	alike("%1 = input(name=\"x\", type=f32[600,1100])\n%2 = softmax(x=%1, axis=1)\n"
	      "%3 = layer_norm(x=%2, axis=1, eps=1e-05)\nreturn \"y\"=%3\n");
	for (unsigned int i = 0; i < draws(); i++)
		draw_sum(&seed);
}

/* So long that a warp or a team has several blocks, of one row and the next. */
TEST(few_long_rows)
{
	alike("%1 = input(name=\"x\", type=f32[5,900000])\n"
	      "%2 = layer_norm(x=%1, axis=1, eps=1e-05)\nreturn \"y\"=%2\n");
	alike("%1 = input(name=\"x\", type=f32[9,1000001])\n"
	      "%2 = log_softmax(x=%1, axis=1)\nreturn \"y\"=%2\n");
}

TEST(attention)
{
	char body[512];
	static const char *const of[] = { "mask=0", "mask=1", "mask=2, window=70", "softcap=5.0",
					  "mask=1, scale=0.3" };

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		snprintf(body, sizeof(body), "%%1 = input(name=\"q\", type=f32[2,%d,4,40])\n"
			 "%%2 = input(name=\"k\", type=f32[2,150,2,40])\n"
			 "%%3 = input(name=\"v\", type=f32[2,150,2,33])\n"
			 "%%4 = attention(q=%%1, k=%%2, v=%%3, kv_heads=2, %s)\n"
			 "return \"y\"=%%4\n", i % 2 ? 1 : 21, of[i]);
		alike(body);
	}
	alike("%1 = input(name=\"q\", type=f32[1,5,2,70])\n"
	      "%2 = input(name=\"k\", type=f32[1,90,2,70])\n"
	      "%3 = input(name=\"b\", type=f32[2,5,90])\n"
	      "%4 = attention(q=%1, k=%2, v=%2, bias=%3)\nreturn \"y\"=%4\n");
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

TEST(ops_that_are_drawn) { draw(fuzz_draw_op, draws()); }
TEST(graphs_that_are_drawn) { draw(fuzz_draw_graph, draws()); }

/* ---- what networks are made of: the CPU's digests, rows alone and among others ---- */

static bool is_refused(const struct part *p)
{
	/* what has no kernels with the CPU's order yet; a name that has is an error */
	static const char *const name[] = { "resize", "transforms", "recurrent", "solve" };

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
	/* the host evaluates control flow, bodies too */
	refused("%1 = input(name=\"p\", type=bool[])\n%2 = input(name=\"x\", type=i32[70])\n"
		"%3 = if(pred=%1, xs=[%2], then_g=graph \"t\" { "
		"%1 = input(name=\"x\", type=i32[70])\n"
		BILLION SINE_OF("%1", "y") "}, else_g=graph \"e\" { "
		"%1 = input(name=\"x\", type=i32[70])\nreturn \"y\"=%1\n})\nreturn \"y\"=%3\n",
		(const char *const[]){ "strict bits", "if", "i32[70]", NULL });
	/* running sums along columns are rounded once here, and to f32 before on the CPU */
	refused("%1 = input(name=\"x\", type=f16[40,70])\n%2 = cumsum(x=%1, axis=0)\n"
		"return \"y\"=%2\n", (const char *const[]){ "strict bits", "cumsum", NULL });
}

TEST_MAIN()
