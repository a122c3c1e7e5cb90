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

/* @source for @key and chip sm_@arch, as module.c compiles it; the image is not kept. */
static void compile(void *lib, const char *source, const char *name, const int32_t key[4],
		    int arch)
{
	const char *const *header, *const *text;
	char word[6][64];
	const char *opt[] = { "-std=c++17", "-default-device", word[0], word[1], word[2],
			      word[3], word[4], word[5], "-DRLX_WARP=32" };
	int n = (int)gpu_headers(&header, &text), err;
	void *prog;
	size_t bytes;
	char *log;

	for (int i = 0; i < 4; i++)
		snprintf(word[i], sizeof(word[i]), "-DRLX_K%d=%d", i, key[i]);
	snprintf(word[4], sizeof(word[4]), "--gpu-architecture=sm_%d%s", arch,
		 arch < 90 ? "" : "a");
	snprintf(word[5], sizeof(word[5]), "-DRLX_ARCH=%d", arch);
	CHECK_CU(CALL(lib, nvrtcCreateProgram, void **, const char *, const char *, int,
		      const char *const *, const char *const *)(&prog, source, name, n, text,
								header));
	err = CALL(lib, nvrtcCompileProgram, void *, int, const char **)(
		prog, sizeof(opt) / sizeof(*opt), opt);
	if (err) {
		CALL(lib, nvrtcGetProgramLogSize, void *, size_t *)(prog, &bytes);
		log = malloc(bytes);
		CALL(lib, nvrtcGetProgramLog, void *, char *)(prog, log);
		fprintf(stderr, "%.3000s\n", log);
		rlx_test_fail(__FILE__, __LINE__, "%s %d %d %d %d does not compile: %d", name,
			      key[0], key[1], key[2], key[3], err);
	}
	CHECK_CU(CALL(lib, nvrtcGetCUBINSize, void *, size_t *)(prog, &bytes));
	CHECK(bytes);
	CHECK_CU(CALL(lib, nvrtcDestroyProgram, void **)(&prog));
}

/* Every variant of the list, compiled to the chip's own code. */
static void compile_all(int arch)
{
	FILE *f = fopen("selftests/gpu/variants.txt", "r");
	void *lib = real_nvrtc();
	char line[128], file[64], only[16];
	int32_t key[4];

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		int n = sscanf(line, "%63s %d %d %d %d %15s", file, &key[0], &key[1],
			       &key[2], &key[3], only);

		if (n < 5 || *file == '#' || (n == 6 && !strcmp(only, "sm_90") && arch != 90))
			continue;
		CHECKF(gpu_source(file), "no source of %s", file);
		compile(lib, gpu_source(file), file, key, arch);
	}
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
