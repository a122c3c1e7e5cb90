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

/*
 * Line @line of the list for chip sm_@arch, as module.c compiles it, but for those that it
 * says are of another; @quick: with little optimization. The image is not kept.
 */
static void compile(void *lib, char *line, int arch, bool quick)
{
	const char *const *header, *const *text;
	char word[24][64], *p = strtok(line, " \n");
	const char *opt[27] = { "-std=c++17", "-default-device" }, *name = p, *source;
	int n = (int)gpu_headers(&header, &text), n_opt = 2, err;
	void *prog;
	size_t bytes;
	char *log;

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
	if (quick)
		opt[n_opt++] = rlx_gpu_cuda.quick;
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
		for (int i = 6; i < n_opt; i++)
			fprintf(stderr, "%s ", opt[i]);
		rlx_test_fail(__FILE__, __LINE__, "%s does not compile: %d", name, err);
	}
	CHECK_CU(CALL(lib, nvrtcGetCUBINSize, void *, size_t *)(prog, &bytes));
	CHECK(bytes);
	CHECK_CU(CALL(lib, nvrtcDestroyProgram, void **)(&prog));
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

TEST(sm_80)
{
	compile_all(80);
}

TEST(sm_90)
{
	compile_all(90);
}

TEST_MAIN()
