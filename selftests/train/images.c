// SPDX-License-Identifier: MIT
/*
 * Image classifiers that learn: handwritten digits of 8 x 8 pixels and a part of Fashion-MNIST,
 * with batch norm, from first values by seed to an accuracy on images they have not seen. Two
 * threads give the bits of one.
 */
#include "selftests/lib/train_rig.h"

#define FASHION "/usr/share/datasets/fashion-mnist/"

enum { CLASSES = 10 };

/* Images as bytes, with labels. */
struct images {
	int64_t		 n, side;
	unsigned char	*pixel;
	int32_t		*label;
	float		 scale;
};

static FILE *unpacked(const char *path)
{
	char command[640];
	FILE *f;

	snprintf(command, sizeof(command), "gzip -dc '%s' 2>/dev/null", path);
	f = popen(command, "r");
	CHECK(f);
	return f;
}

/* Every fifth one is to test with. */
static void read_digits(struct images *train, struct images *test)
{
	const char *build = getenv("BUILD");
	char path[512], line[1024], *p;
	struct images *to;
	FILE *f;
	int i, k;

	snprintf(path, sizeof(path), "%s/models/digits.csv.gz", build ? build : "build");
	f = unpacked(path);
	*train = *test = (struct images){ .side = 8, .scale = 1 / 16.0f };
	for (i = 0; i < 2; i++) {
		to = i ? test : train;
		to->pixel = malloc(1800 * 64);
		to->label = malloc(1800 * sizeof(*to->label));
		CHECK(to->pixel && to->label);
	}
	for (i = 0; fgets(line, sizeof(line), f) && i < 1800; i++) {
		to = i % 5 ? train : test;
		for (k = 0, p = line; k < 64; k++)
			to->pixel[to->n * 64 + k] = (unsigned char)strtol(p + (k > 0), &p, 10);
		to->label[to->n++] = (int32_t)strtol(p + 1, &p, 10);
	}
	pclose(f);
	CHECKF(i == 1797, "%s: %d rows, not 1797; tools/fetch-models.sh digits", path, i);
}

static void read_idx(struct images *to, const char *images, const char *labels, int64_t n)
{
	unsigned char head[16], l;
	FILE *f = unpacked(images);
	int64_t i;

	*to = (struct images){ .n = n, .side = 28, .scale = 1 / 255.0f };
	to->pixel = malloc((size_t)n * 784);
	to->label = malloc((size_t)n * sizeof(*to->label));
	CHECK(to->pixel && to->label);
	CHECKF(fread(head, 16, 1, f) && fread(to->pixel, 784, (size_t)n, f) == (size_t)n,
	       "%s cannot be read; tools/setup.sh train", images);
	pclose(f);
	f = unpacked(labels);
	CHECKF(fread(head, 8, 1, f), "%s cannot be read", labels);
	for (i = 0; i < n; i++) {
		CHECK(fread(&l, 1, 1, f));
		to->label[i] = l;
	}
	pclose(f);
}

static void images_fini(struct images *im)
{
	free(im->pixel);
	free(im->label);
}

static rlx_value conv(struct train_rig *r, const char *name, rlx_value x, int64_t in, int64_t out,
		      bool train)
{
	rlx_vars_enter(r->v, name);
	x = rlx_emit(r->g, conv, .x = x, .pad = RLX_INTS(1, 1, 1, 1),
		     .w = rlx_var(r->g, r->v, "weight", rlx_type(RLX_F32, out, in, 3, 3),
				  RLX_KAIMING((double)in * 9), RLX_VAR_MATRIX));
	rlx_vars_enter(r->v, "bn");
	x = rlx_batch_norm(r->g, r->v, x, train, NULL);
	rlx_vars_leave(r->v);
	rlx_vars_leave(r->v);
	x = rlx_emit(r->g, relu, .x = x);
	return rlx_emit(r->g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
			.stride = RLX_INTS(2, 2));
}

/* Two convolutions, one layer; logits of @n bytes-to-floats images. */
static rlx_value logits(struct train_rig *r, const struct images *im, int64_t n, bool train)
{
	int64_t side = im->side, wide = side == 8 ? 32 : 16;
	int64_t flat = wide * (side / 4) * (side / 4);
	rlx_value x = rlx_input(r->g, "images", rlx_type(RLX_U8, n, side, side));

	x = rlx_emit(r->g, cast, .x = x, .to = RLX_F32);
	x = rlx_emit(r->g, mul, .a = x,
		     .b = rlx_scalar_const(r->g, RLX_F32, (double)im->scale));
	x = rlx_emit(r->g, reshape, .x = x, .shape = RLX_INTS(n, 1, side, side));
	x = conv(r, "c1", x, 1, wide / 2, train);
	x = conv(r, "c2", x, wide / 2, wide, train);
	x = rlx_emit(r->g, reshape, .x = x, .shape = RLX_INTS(n, flat));
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "head.weight",
		     rlx_type(RLX_F32, flat, CLASSES), RLX_KAIMING((double)flat), 0));
	return rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "head.bias",
			rlx_type(RLX_F32, CLASSES), RLX_ZEROS, RLX_VAR_NO_DECAY));
}

struct run {
	const struct rlx_optimizer *how;
	unsigned int	 threads;
	int64_t		 batch;
	uint64_t	 steps;
	double		 lr;
};

static void fit(struct train_rig *r, const struct images *im, const struct run *run)
{
	struct rlx_schedule plan = { .kind = RLX_COSINE, .lr = run->lr, .floor = 0.05,
				     .warmup = 10, .steps = run->steps };
	size_t bytes = (size_t)(im->side * im->side);
	uint64_t seed = 99, step;
	rlx_value x;
	int64_t i, at;

	train_begin(r);
	x = rlx_loss_ce(r->g, logits(r, im, run->batch, true),
			rlx_input(r->g, "labels", rlx_type(RLX_I32, run->batch)), NULL);
	rlx_train_step(r->g, r->v, x, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)),
		       &(struct rlx_train_opts){ .size = sizeof(struct rlx_train_opts),
						 .clip_norm = 5 }, run->how);
	train_open(r, "cpu", run->threads, NULL, 1);
	for (step = 0; step < run->steps; step++) {
		unsigned char *p = train_at(r, RLX_IO_INPUT, "images");
		int32_t *l = train_at(r, RLX_IO_INPUT, "labels");

		for (i = 0; i < run->batch; i++) {
			at = (int64_t)(rlx_test_rand(&seed) % (uint64_t)im->n);
			memcpy(p + (size_t)i * bytes, im->pixel + (size_t)at * bytes, bytes);
			l[i] = im->label[at];
		}
		*(float *)train_at(r, RLX_IO_INPUT, "lr") = (float)rlx_schedule_at(&plan, step);
		train_run(r);
		CHECKF(*(int32_t *)train_at(r, RLX_IO_OUTPUT, "ok"),
		       "step %llu: norm is not finite", (unsigned long long)step);
	}
}

/* In percent, of images that were not trained on, by another program over the same states. */
static double accuracy(struct train_rig *trained, const struct images *im)
{
	struct train_rig r = { .g = rlx_graph_new("eval"), .v = trained->v };
	int64_t i, k, best, right = 0;
	const float *y;

	rlx_output(r.g, "y", logits(&r, im, im->n, false));
	train_open(&r, "cpu", 1, trained->states, 0);
	memcpy(train_at(&r, RLX_IO_INPUT, "images"), im->pixel,
	       (size_t)(im->n * im->side * im->side));
	train_run(&r);
	y = train_at(&r, RLX_IO_OUTPUT, "y");
	for (i = 0; i < im->n; i++, y += CLASSES) {
		for (best = 0, k = 1; k < CLASSES; k++)
			best = y[k] > y[best] ? k : best;
		right += best == im->label[i];
	}
	r.v = NULL;
	train_end(&r);
	return 100.0 * (double)right / (double)im->n;
}

static const struct rlx_optimizer adamw = {
	.size = sizeof(adamw), .kind = RLX_ADAMW, .decay = 0.01,
};
static const struct rlx_optimizer sgd = {
	.size = sizeof(sgd), .kind = RLX_SGD, .momentum = 0.9, .nesterov = true, .decay = 5e-4,
};
static const struct rlx_optimizer muon = {
	.size = sizeof(muon), .kind = RLX_MUON, .nesterov = true, .decay = 0.01,
};

static void digits_by(const struct run *run, double want)
{
	struct images train, test;
	struct train_rig r;
	double got;

	read_digits(&train, &test);
	fit(&r, &train, run);
	got = accuracy(&r, &test);
	printf("# digits, optimizer %d: %.1f %% of %lld\n", run->how->kind, got, (long long)test.n);
	CHECKF(got >= want, "%.1f %%, %g is wanted", got, want);
	train_end(&r);
	images_fini(&train);
	images_fini(&test);
}

TEST(digits)
{
	digits_by(&(struct run){ &adamw, 1, 64, 800, 5e-3 }, 98);
}

TEST(digits_by_sgd)
{
	digits_by(&(struct run){ &sgd, 1, 64, 600, 0.1 }, 97.5);
}

TEST(digits_by_muon)
{
	digits_by(&(struct run){ &muon, 1, 64, 200, 0.02 }, 97.5);
}

TEST(fashion)
{
	struct images train, test;
	struct train_rig r;
	double got;

	read_idx(&train, FASHION "train-images-idx3-ubyte.gz",
		 FASHION "train-labels-idx1-ubyte.gz", 20000);
	read_idx(&test, FASHION "t10k-images-idx3-ubyte.gz",
		 FASHION "t10k-labels-idx1-ubyte.gz", 2000);
	fit(&r, &train, &(struct run){ &adamw, 2, 64, 300, 5e-3 });
	got = accuracy(&r, &test);
	printf("# fashion: %.1f %% of %lld\n", got, (long long)test.n);
	CHECKF(got >= 84, "%.1f %%, 84 is wanted", got);
	train_end(&r);
	images_fini(&train);
	images_fini(&test);
}

TEST(one_and_two_threads)
{
	struct images train, test;
	struct train_rig r[2];
	unsigned int i;
	int k;

	read_digits(&train, &test);
	for (k = 0; k < 2; k++)
		fit(&r[k], &train, &(struct run){ &adamw, (unsigned int)k + 1, 64, 20, 5e-3 });
	for (i = 0; i < rlx_program_io_count(r[0].p, RLX_IO_STATE); i++) {
		struct rlx_buf a = rlx_session_bound_at(r[0].s, RLX_IO_STATE, i);
		struct rlx_buf b = rlx_session_bound_at(r[1].s, RLX_IO_STATE, i);

		CHECKF(!memcmp(rlx_buf_ptr(a), rlx_buf_ptr(b), a.bytes), "%s differs",
		       rlx_program_io_name(r[0].p, RLX_IO_STATE, i));
	}
	train_end(&r[0]);
	train_end(&r[1]);
	images_fini(&train);
	images_fini(&test);
}

TEST_MAIN()
