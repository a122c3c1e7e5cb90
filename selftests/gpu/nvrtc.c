// SPDX-License-Identifier: MIT
/* GPU kernels through the real NVRTC, where there is one: it needs no GPU. */
#include "selftests/gpu/kernel_run.h"

static void *real_nvrtc(void)
{
	static const char *const name[] = { "libnvrtc.so.13", "libnvrtc.so.12",
		"libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so" };
	const char *own = getenv("RLX_NVRTC");
	void *lib = own ? dlopen(own, RTLD_NOW) : NULL;

	if (own)
		CHECKF(lib, "%s", dlerror());
	/* the emulator's own one may come first on the loader's path */
	for (size_t i = 0; i < sizeof(name) / sizeof(*name) && !lib; i++) {
		lib = dlopen(name[i], RTLD_NOW);
		if (lib && dlsym(lib, "rlx_emulated"))
			lib = NULL;
	}
	if (!lib)
		rlx_test_skip("no NVRTC");
	return lib;
}

/* A row of kernels.def by its name. */
static const struct gpu_variant *row_of(const char *name)
{
	const struct gpu_variant *row = gpu_variants + 1;

	while (strcmp(row->name, name))
		CHECKF(++row < gpu_variants + RLX_G_VARIANTS, "no kernel %s", name);
	return row;
}

/* What strict bits may have of row @row with the parameters of @opt, which are -DNAME=value. */
static enum rlx_g_bits bits_of(const struct gpu_variant *row, const char *const *opt, int n_opt)
{
	union rlx_g_param param = { 0 };
	struct gpu_kernel k = gpu_kernel_of((enum rlx_g_variant)(row - gpu_variants), &param, 0);
	char name[64];
	size_t n;

	for (unsigned int i = 0; gpu_param_text(&k, i, name, sizeof(name)); i++)
		for (int o = 0; o < n_opt; o++) {
			n = strcspn(name, "=") + 1;
			if (!strncmp(opt[o], "-D", 2) && !strncmp(opt[o] + 2, name, n))
				param.value[i] = atoi(opt[o] + 2 + n);
		}
	return rlx_g_bits((enum rlx_g_variant)(row - gpu_variants), &param);
}

/* Of code with the CPU's bits: nothing is contracted, approximate, or flushed to 0. */
static void check_ordered(void *lib, void *prog, const char *name)
{
	static const char *const word[] = { ".approx", ".ftz", "mul.f32", "add.f32", "sub.f32",
					    "mad.f32", "mul.f64", "add.f64", "sub.f64", ".full" };
	size_t bytes;
	char *text;

	CHECK_CU(CALL(lib, nvrtcGetPTXSize, void *, size_t *)(prog, &bytes));
	text = malloc(bytes);
	CHECK(text);
	CHECK_CU(CALL(lib, nvrtcGetPTX, void *, char *)(prog, text));
	CHECKF(strstr(text, ".f32"), "%s: nothing is computed", name);
	for (size_t i = 0; i < sizeof(word) / sizeof(*word); i++)
		CHECKF(!strstr(text, word[i]), "%s has %s", name, word[i]);
	free(text);
}

/* Compile @source by @opt; @ordered: and look at what came of it. */
static void build(void *lib, const char *source, const char *name, const char **opt, int n_opt,
		  bool ordered)
{
	const char *const *header, *const *text;
	int n = (int)gpu_headers(&header, &text), err;
	void *prog;
	size_t bytes;
	char *log;

	CHECK_CU(CALL(lib, nvrtcCreateProgram, void **, const char *, const char *, int,
		      const char *const *, const char *const *)(&prog, source, name, n, text,
								header));
	err = CALL(lib, nvrtcCompileProgram, void *, int, const char **)(
		prog, n_opt, opt);
	if (err) {
		CALL(lib, nvrtcGetProgramLogSize, void *, size_t *)(prog, &bytes);
		log = malloc(bytes);
		CALL(lib, nvrtcGetProgramLog, void *, char *)(prog, log);
		fprintf(stderr, "%.3000s\n", log);
		for (int i = 2; i < n_opt; i++)
			fprintf(stderr, "%s ", opt[i]);
		rlx_test_fail(__FILE__, __LINE__, "%s does not compile: %d", name, err);
	}
	CHECK_CU(CALL(lib, nvrtcGetCUBINSize, void *, size_t *)(prog, &bytes));
	CHECK(bytes);
	if (ordered)
		check_ordered(lib, prog, name);
	CHECK_CU(CALL(lib, nvrtcDestroyProgram, void **)(&prog));
}

/*
 * Line @line of the list for chip sm_@arch, as module.c compiles it, but for those that it
 * says are of another; @quick: with little optimization. The image is not kept.
 */
static void compile(void *lib, char *line, int arch, bool quick)
{
	char word[24][64], *p = strtok(line, " \n");
	const char *opt[27] = { "-std=c++17", "-default-device" }, *name = p, *source;
	bool ordered;
	int n_opt = 2;

	if (!name || *name == '#')
		return;
	source = gpu_source(row_of(name)->file);
	CHECKF(source, "no source of %s", name);
	snprintf(word[0], sizeof(word[0]), "--gpu-architecture=sm_%d%s", arch,
		 arch < 90 ? "" : "a");
	snprintf(word[1], sizeof(word[1]), "-DRLX_ARCH=%d", arch);
	snprintf(word[2], sizeof(word[2]), "-DRLX_WARP=32");
	snprintf(word[3], sizeof(word[3]), "-DRLX_KERNEL_%s", name);
	for (int i = 0; i < 4; i++)
		opt[n_opt++] = word[i];
	while ((p = strtok(NULL, " \n"))) {
		if (!strcmp(p, "sm_90") && arch != 90)
			return;
		if (!strchr(p, '='))
			continue;
		CHECK(n_opt < 26);
		snprintf(word[n_opt - 2], sizeof(word[0]), "-D%s", p);
		opt[n_opt] = word[n_opt - 2];
		n_opt++;
	}
	ordered = bits_of(row_of(name), opt, n_opt) == RLX_G_BITS_ORDERED;
	if (ordered)
		opt[n_opt++] = rlx_gpu_cuda.ordered;
	else if (quick)
		opt[n_opt++] = rlx_gpu_cuda.quick;
	build(lib, source, name, opt, n_opt, ordered);
}

/*
 * Every variant of the list, compiled to the chip's own code. What a kernel may have wrong is
 * found with little optimization, in half the time, where the compiler has the option; lest
 * optimizing fails, every eighth, beginning anywhere, is compiled as it is to run.
 */
static void compile_all(int arch)
{
	FILE *f = fopen("selftests/gpu/variants.txt", "r");
	void *lib = real_nvrtc();
	uint64_t seed = rlx_test_seed();
	int major, minor, i, full = (int)(rlx_test_rand(&seed) % 8);
	char line[512];

	CHECK(f);
	CHECK_CU(CALL(lib, nvrtcVersion, int *, int *)(&major, &minor));
	for (i = 0; fgets(line, sizeof(line), f); i++)
		compile(lib, line, arch, major * 10 + minor >= 129 && i % 8 != full);
	fclose(f);
}

/* All that pointwise code with strict bits is written of. */
TEST(pointwise_rows)
{
	static const char text[] =
		"#include \"kernels/gpu/dialect.h\"\n#include \"kernels/gpu/pointwise_ordered.h\"\n"
		"RLX_G_KERNEL_PDL(ew, struct rlx_g_ew, 256)\n{\n"
		"const float *p = RLX_G_PTR(const float, a.in[0]);\n"
		"float *o = RLX_G_PTR(float, a.out[0]), x, y, z;\n"
		"x = p[threadIdx.x]; y = p[threadIdx.x + 256]; z = p[threadIdx.x + 512];\n"
		"#define UN(n, ...) *o++ = ewo_##n(x);\n#define BIN(n, ...) *o++ = ewo_##n(x, y);\n"
		"#define TER(n, ...) *o++ = ewo_##n(x, y, z);\nRLX_EW_F32_ROWS(UN, BIN, TER)\n"
		"*o++ = ewo_pow(x, 0.5f);\n}\n";	/* fmod, which is exact, begins with less */
	const char *opt[] = { "-std=c++17", "-default-device", "--gpu-architecture=sm_90a",
		"-DRLX_ARCH=90", "-DRLX_WARP=32", rlx_gpu_cuda.ordered };

	build(real_nvrtc(), text, "ew", opt, sizeof(opt) / sizeof(*opt), true);
}

TEST(sm_80)
{
	compile_all(80);
}

TEST(sm_90)
{
	compile_all(90);
}

TEST_MAIN()
