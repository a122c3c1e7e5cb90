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

/* Every variant of the list, compiled to the chip's own code. */
static void compile_all(int arch)
{
	FILE *f = fopen("selftests/gpu/variants.txt", "r");
	char line[128], file[64], path[128], *source, sm[16], number[24];
	int32_t key[4];

	snprintf(sm, sizeof(sm), "sm_%d", arch);
	snprintf(number, sizeof(number), "-DRLX_ARCH=%d", arch);
	gpu.nvrtc = real_nvrtc();
	gpu.wave = 32;
	gpu_sources();
	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		const char *opt[1] = { number };
		void *image;

		if (sscanf(line, "%63s %d %d %d %d", file, &key[0], &key[1], &key[2],
			   &key[3]) != 5 || *file == '#')
			continue;
		snprintf(path, sizeof(path), "kernels/gpu/%s.cu", file);
		source = gpu_text(path);
		image = gpu_image(source, file, key, sm, opt[0]);
		free(source);
		free(image);
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
