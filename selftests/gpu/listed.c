// SPDX-License-Identifier: MIT
/*
 * Does kernels/gpu/prebuilt.def have what common models ask for? They are compiled for
 * a dry driver (selftests/gpu/dry), and the folder of kernels tells what they wanted. Encoders are
 * compiled in the sizes that rlxd has programs of, by its own function.
 * On failure the missing lines are printed as they should be added.
 */
#include <dirent.h>
#include <unistd.h>

#include "backends/gpu/gpu.h"
#include "rlx/bert.h"
#include "rlx/compile.h"
#include "selftests/lib/decoder.h"
#include "selftests/lib/tiny_bert.h"
#include "tools/rlxd/encoder_sizes.h"

struct wanted {
	enum rlx_g_variant	variant;
	union rlx_g_param	param;
	int			only;
	const char		*text;	/* of pointwise code; NULL: a variant */
};

#define PREBUILT(n, ...)		{ RLX_G_##n, { .n = { __VA_ARGS__ } }, 0 },
#define PREBUILT_ON(chip, n, ...)	{ RLX_G_##n, { .n = { __VA_ARGS__ } }, chip },
#define PREBUILT_TEXT(source)		{ .text = source },
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

/* One batch, of texts of one length, in a precision. */
static void compile_encoder(struct rlx_bert *m, int64_t batch, int64_t seq,
			    enum rlx_precision precision)
{
	for (int pool = RLX_BERT_MEAN; pool <= RLX_BERT_CLS; pool++) {
		struct rlx_bert_opts o = {
			.size = sizeof(o), .batch = batch, .seq = seq,
			.pool = (enum rlx_bert_pool)pool, .normalise = true,
		};
		struct rlx_error err = { 0 };
		struct rlx_graph *g;

		CHECKF(!rlx_bert_graph(m, &o, &g, &err), "%s", err.text);
		compile(g, precision);
	}
}

/*
 * MiniLM and BERT-base in each precision, as rlxd has them, and batches of 8: three layers, for the
 * first and the last are special.
 */
static void compile_encoders(const char *dir)
{
	static const struct tb_size size[] = {
		{ 384, 3, 12, 1536, 64, 512, 2 }, { 768, 3, 12, 3072, 64, 512, 2 },
	};
	static const enum rlx_precision precision[] = {
		RLX_PRECISION_AS_WRITTEN, RLX_PRECISION_F16, RLX_PRECISION_MIXED_F16,
		RLX_PRECISION_MIXED_BF16, RLX_PRECISION_TF32,
	};
	static const int64_t seq[] = ENCODER_BUCKETS;
	int64_t rows[ENCODER_SIZES];
	unsigned int n = encoder_sizes(ENCODER_BATCH, true, rows), b;
	static struct tiny_bert bert;
	struct rlx_error err = { 0 };
	struct rlx_bert *m;
	uint64_t seed = 1;
	size_t i, k, p;

	for (i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		tb_init_size(&bert, &size[i], &seed);
		tb_write(&bert, dir);
		tb_fini(&bert);
		CHECKF(!rlx_bert_open(dir, &m, &err), "%s", err.text);
		for (p = 0; p < sizeof(precision) / sizeof(precision[0]); p++)
			for (k = 0; k < sizeof(seq) / sizeof(seq[0]); k++) {
				for (b = 0; b < n; b++)
					compile_encoder(m, rows[b], seq[k], precision[p]);
				compile_encoder(m, 8, seq[k], precision[p]);
			}
		rlx_bert_put(m);
	}
}

enum { MOST = 1 << 20 };

/* A file of the folder, zeros as blanks; its data begin at the result. */
static size_t read_kept(const char *dir, const char *name, char text[MOST])
{
	char path[512];
	uint64_t size[2];
	size_t n, i;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	CHECK(f);
	n = fread(text, 1, MOST - 1, f);
	fclose(f);
	CHECK(n > 40 && n < MOST - 1);
	memcpy(size, text + 8, sizeof(size));	/* bytes of the key and of the data */
	CHECK(40 + size[0] + size[1] == n);
	for (i = 0; i < n; i++)
		text[i] = text[i] ? text[i] : ' ';
	text[n - 1] = 0;			/* the source's end */
	return n - size[1];
}

/* The kernel that a file of the folder was kept for; false: none. */
static bool wanted_of(const char *dir, const char *name, struct wanted *out)
{
	static char text[MOST];
	char kernel[48], param[64], *at;
	size_t source = read_kept(dir, name, text);
	struct gpu_kernel k;
	unsigned int p;

	at = strstr(text, "; cuda; ");
	if (!at || sscanf(at, "; cuda; %47[^;]", kernel) != 1)
		return false;
	if (!strcmp(kernel, "ew")) {
		*out = (struct wanted){ .text = text + source };
		return true;
	}
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

	for (i = 0; w->text && i < sizeof(list) / sizeof(list[0]); i++)
		if (list[i].text && !strcmp(list[i].text, w->text))
			return true;
	for (i = 0; !w->text && i < sizeof(list) / sizeof(list[0]); i++)
		if (!list[i].text && list[i].variant == w->variant &&
		    !memcmp(&list[i].param, &w->param, sizeof(w->param)) &&
		    (!list[i].only || list[i].only == chip))
			return true;
	return false;
}

static void print_text(const char *text)
{
	printf("# PREBUILT_TEXT(\"");
	for (; *text; text++)
		if (*text == '\n')
			printf("\\n");
		else if (*text == '\t')
			printf("\\t");
		else
			printf("%s%c", strchr("\"\\", *text) ? "\\" : "", *text);
	printf("\")\n");
}

/* The row as it should be added. */
static void print_missing(const struct wanted *w, int chip)
{
	struct gpu_kernel k;
	char param[64];
	unsigned int i;

	if (w->text) {
		print_text(w->text);
		return;
	}
	k = gpu_kernel_of(w->variant, &w->param, 0);
	printf("# %s%s", chip == 90 ? "PREBUILT_ON(90, " : "PREBUILT(", k.name);
	for (i = 0; gpu_param_text(&k, i, param, sizeof(param)); i++)
		printf(", .%.*s = %s", (int)strcspn(param, "="), param, strchr(param, '=') + 1);
	printf(")\n");
}

/* What is compiled for chip sm_@chip, whose numbers are those of @name. */
static void check_chip(int chip, const char *name)
{
	const char *build = getenv("BUILD");
	char dir[] = "/tmp/rlx-listed-XXXXXX", cmd[1024], kept[64];
	unsigned int n = 0, missing = 0;
	struct wanted w;
	struct dirent *e;
	DIR *d;

	CHECK(mkdtemp(dir));
	snprintf(cmd, sizeof(cmd), "RLX_DRY_CHIP=%d RLX_DRY_NAME='%s' XDG_CACHE_HOME=%s "
		 "LD_LIBRARY_PATH=%s/test/dry /proc/%d/exe compile %s", chip, name, dir,
		 build ? build : "build", (int)getpid(), dir);
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

TEST(a100)
{
	check_chip(80, "NVIDIA A100-SXM4-80GB");
}

TEST(h200)
{
	check_chip(90, "NVIDIA H200");
}

TEST(h100)
{
	check_chip(90, "NVIDIA H100 80GB HBM3");
}

int main(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "compile"))
		return rlx_test_main(argc, argv);
	compile_decoders();
	compile_encoders(argv[2]);
	return 0;
}
