// SPDX-License-Identifier: MIT
/*
 * Does kernels/gpu/prebuilt.def have what common models ask for? They are compiled for
 * a dry driver (selftests/gpu/dry), and the folder of kernels tells what they wanted.
 * On failure the missing lines are printed as they should be added.
 */
#include <dirent.h>
#include <unistd.h>

#include "backends/gpu/gpu.h"
#include "rlx/bert.h"
#include "rlx/compile.h"
#include "selftests/lib/decoder.h"
#include "selftests/lib/tiny_bert.h"

struct wanted {
	enum rlx_g_variant	variant;
	union rlx_g_param	param;
	int			only;
};

#define PREBUILT(n, ...)		{ RLX_G_##n, { .n = { __VA_ARGS__ } }, 0 },
#define PREBUILT_ON(chip, n, ...)	{ RLX_G_##n, { .n = { __VA_ARGS__ } }, chip },
static const struct wanted list[] = {
#include "kernels/gpu/prebuilt.def"
};

static void compile(struct rlx_graph *g, enum rlx_precision precision)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = "cuda", .precision = precision,
	};
	struct rlx_error err = { 0 };
	struct rlx_program *p;

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/* One layer of llama's 1B and 8B, at batch 1. */
static void compile_decoders(void)
{
	static const struct decoder_size size[] = {
		{ 1, 2048, 32, 8, 64, 8192, 128256, 64 },
		{ 1, 4096, 32, 8, 128, 14336, 128256, 64 },
	};
	size_t i;

	for (i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		compile(decoder_graph(&size[i], RLX_BF16), RLX_PRECISION_AS_WRITTEN);
		compile(decoder_graph(&size[i], RLX_F16), RLX_PRECISION_AS_WRITTEN);
	}
}

/* MiniLM, of one layer, in each precision: a line, a batch, and what rlxd makes of it. */
static void compile_encoders(const char *dir)
{
	static const struct tb_size size = { 384, 1, 12, 1536, 64, 512, 2 };
	static const enum rlx_precision precision[] = {
		RLX_PRECISION_AS_WRITTEN, RLX_PRECISION_MIXED_F16, RLX_PRECISION_MIXED_BF16,
		RLX_PRECISION_TF32,
	};
	static const int64_t shape[][2] = {
		{ 32, 512 },
		{ 1, 16 }, { 1, 32 }, { 1, 64 }, { 1, 128 }, { 1, 256 }, { 1, 512 },
		{ 8, 16 }, { 8, 32 }, { 8, 64 }, { 8, 128 }, { 8, 256 }, { 8, 512 },
	};
	static struct tiny_bert b;
	struct rlx_error err = { 0 };
	struct rlx_graph *g;
	struct rlx_bert *m;
	uint64_t seed = 1;
	size_t i, k;

	tb_init_size(&b, &size, &seed);
	tb_write(&b, dir);
	tb_fini(&b);
	CHECKF(!rlx_bert_open(dir, &m, &err), "%s", err.text);
	for (i = 0; i < sizeof(shape) / sizeof(shape[0]); i++)
		for (k = 0; k < sizeof(precision) / sizeof(precision[0]); k++) {
			struct rlx_bert_opts o = {
				.size = sizeof(o), .batch = shape[i][0], .seq = shape[i][1],
				.pool = RLX_BERT_MEAN, .normalise = true,
			};

			CHECKF(!rlx_bert_graph(m, &o, &g, &err), "%s", err.text);
			compile(g, precision[k]);
		}
	rlx_bert_put(m);
}

/* The kernel that a file of the folder was kept for; false: pointwise code, or none. */
static bool wanted_of(const char *dir, const char *name, struct wanted *out)
{
	static char text[4096];
	char path[512], kernel[48], param[64], *at;
	struct gpu_kernel k;
	unsigned int p;
	size_t n, i;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	CHECK(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	for (i = 0; i < n; i++)	/* the head holds zeros */
		text[i] = text[i] ? text[i] : ' ';
	text[n] = 0;
	at = strstr(text, "; cuda; ");
	if (!at || sscanf(at, "; cuda; %47[^;]", kernel) != 1 || !strcmp(kernel, "ew"))
		return false;
	*out = (struct wanted){ .variant = RLX_G_NONE + 1 };
	while (strcmp(gpu_variants[out->variant].name, kernel))
		CHECKF(++out->variant < RLX_G_VARIANTS, "no kernel %s", kernel);
	k = gpu_kernel_of(out->variant, &out->param, 0);
	for (p = 0; gpu_param_text(&k, p, param, sizeof(param)); p++) {
		char *value = strchr(param, '='), *of;

		value[1] = 0;
		of = strstr(at, param);
		CHECKF(of, "%s without %s", kernel, param);
		out->param.value[p] = atoi(of + strlen(param));
	}
	return true;
}

static bool is_listed(const struct wanted *w, int chip)
{
	size_t i;

	for (i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (list[i].variant == w->variant &&
		    !memcmp(&list[i].param, &w->param, sizeof(w->param)) &&
		    (!list[i].only || list[i].only == chip))
			return true;
	return false;
}

/* The row as it should be added. */
static void print_missing(const struct wanted *w, int chip)
{
	const struct gpu_kernel k = gpu_kernel_of(w->variant, &w->param, 0);
	char param[64];
	unsigned int i;

	printf("# %s%s", chip == 90 ? "PREBUILT_ON(90, " : "PREBUILT(", k.name);
	for (i = 0; gpu_param_text(&k, i, param, sizeof(param)); i++)
		printf(", .%.*s = %s", (int)strcspn(param, "="), param, strchr(param, '=') + 1);
	printf(")\n");
}

static void check_chip(int chip)
{
	const char *build = getenv("BUILD");
	char dir[] = "/tmp/rlx-listed-XXXXXX", cmd[1024], kept[64];
	unsigned int n = 0, missing = 0;
	struct wanted w;
	struct dirent *e;
	DIR *d;

	CHECK(mkdtemp(dir));
	snprintf(cmd, sizeof(cmd), "RLX_DRY_CHIP=%d XDG_CACHE_HOME=%s LD_LIBRARY_PATH=%s/test/dry "
		 "/proc/%d/exe compile %s", chip, dir, build ? build : "build", (int)getpid(), dir);
	CHECKF(!system(cmd), "%s", cmd);
	snprintf(kept, sizeof(kept), "%s/rlx/gpu", dir);
	d = opendir(kept);
	CHECK(d);
	while ((e = readdir(d))) {
		if (*e->d_name == '.' || !wanted_of(kept, e->d_name, &w))
			continue;
		n++;
		if (is_listed(&w, chip))
			continue;
		missing++;
		print_missing(&w, chip);
	}
	closedir(d);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	CHECK(!system(cmd));
	CHECKF(n > 10, "only %u kernels", n);
	CHECKF(!missing, "%u of %u kernels are not listed", missing, n);
}

TEST(sm_80)
{
	check_chip(80);
}

TEST(sm_90)
{
	check_chip(90);
}

int main(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "compile"))
		return rlx_test_main(argc, argv);
	compile_decoders();
	compile_encoders(argv[2]);
	return 0;
}
