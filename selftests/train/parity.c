// SPDX-License-Identifier: MIT
/*
 * Losses and norms of 100 steps against PyTorch's in float64 (selftests/train/expected/, by
 * tools/train/expected.py): a decoder of bytes and a convolutional net with batch norm. Equal
 * first values, equal batches, AdamW, clipping, a schedule.
 */
#include "selftests/lib/train_cnn.h"

enum { STEPS = 100, ROWS = 32 };

static const struct train_decoder small = {
	.layers = 2, .dim = 64, .heads = 4, .context = 32, .batch = 4,
};

static rlx_value decoder(struct train_rig *r)
{
	return train_decoder_loss(r, &small);
}

static void decoder_batch(struct train_rig *r, int64_t step)
{
	train_decoder_batch(r, &small, step);
}

static rlx_value digits(struct train_rig *r)
{
	rlx_value x = rlx_input(r->g, "x", rlx_type(RLX_F32, ROWS, 1, 8, 8));
	int64_t in = 1, i;

	for (i = 0; i < 2; i++) {
		int64_t out = i ? 16 : 8;

		x = train_cnn_halve(r, train_cnn_conv(r, (int)i, x, in, out));
		in = out;
	}
	x = rlx_emit(r->g, reshape, .x = x, .shape = RLX_INTS(ROWS, 64));
	x = rlx_emit(r->g, matmul, .a = x, .b = rlx_var(r->g, r->v, "head.weight",
		     rlx_type(RLX_F32, 64, 10), RLX_KAIMING(64), 0));
	x = rlx_emit(r->g, add, .a = x, .b = rlx_var(r->g, r->v, "head.bias",
		     rlx_type(RLX_F32, 10), RLX_ZEROS, RLX_VAR_NO_DECAY));
	return rlx_loss_ce(r->g, x, rlx_input(r->g, "y", rlx_type(RLX_I32, ROWS)), NULL);
}

static void digits_batch(struct train_rig *r, int64_t step)
{
	static unsigned char row[1797][65];
	static bool have;
	const char *build = getenv("BUILD");
	float *x = train_at(r, RLX_IO_INPUT, "x");
	int32_t *y = train_at(r, RLX_IO_INPUT, "y");
	char command[600], line[512], *p;
	int64_t i, k;
	FILE *f;

	if (!have) {
		snprintf(command, sizeof(command), "gzip -dc '%.500s/models/digits.csv.gz'",
			 build ? build : "build");
		f = popen(command, "r");
		CHECK(f);
		for (i = 0; i < 1797; i++) {
			CHECKF(fgets(line, sizeof(line), f), "digits: tools/fetch-models.sh digits");
			for (k = 0, p = line; k < 65; k++, p++)
				row[i][k] = (unsigned char)strtol(p, &p, 10);
		}
		pclose(f);
		have = true;
	}
	for (i = 0; i < ROWS; i++) {
		const unsigned char *from = row[(step * ROWS + 7 * i) % 1797];

		for (k = 0; k < 64; k++)
			x[i * 64 + k] = (float)from[k] / 16;
		y[i] = from[64];
	}
}

/* A table's line behind the comments; false at the end. */
static bool expected(FILE *f, int *step, double *loss, double *n)
{
	char line[128];

	while (fgets(line, sizeof(line), f))
		if (*line != '#')
			return sscanf(line, "%d %lf %lf", step, loss, n) == 3;
	return false;
}

struct model {
	const char	*name;
	rlx_value	(*loss)(struct train_rig *r);
	void		(*batch)(struct train_rig *r, int64_t step);
	double		 later;		/* of the loss, up to step 100 */
};

static void compare(const struct model *m)
{
	struct rlx_optimizer how = { .size = sizeof(how), .kind = RLX_ADAMW, .beta1 = 0.9,
				     .beta2 = 0.95, .eps = 1e-8, .decay = 0.1 };
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 1 };
	struct rlx_schedule plan = { .kind = RLX_COSINE, .lr = 1e-3, .warmup = 20, .floor = 0.1,
				     .steps = STEPS };
	double loss, n, off, worst[3] = { 0 };
	struct train_rig r;
	char path[128];
	int step, k = 0;
	FILE *f;

	train_begin(&r);
	rlx_train_step(r.g, r.v, m->loss(&r), rlx_input(r.g, "lr", rlx_scalar(RLX_F32)), &o, &how);
	train_open(&r, "cpu", 1, NULL, 1);
	snprintf(path, sizeof(path), "selftests/train/expected/%s.txt", m->name);
	f = fopen(path, "r");
	CHECKF(f, "%s cannot be opened", path);
	for (; expected(f, &step, &loss, &n); k++) {
		CHECK_EQ(step, k);
		m->batch(&r, step);
		*(float *)train_at(&r, RLX_IO_INPUT, "lr") =
			(float)rlx_schedule_at(&plan, (uint64_t)step);
		train_run(&r);
		off = fabs(train_loss(&r) - loss);
		worst[k < 1 ? 0 : k < 8 ? 1 : 2] = fmax(worst[k < 1 ? 0 : k < 8 ? 1 : 2], off);
		CHECKF(off <= (k < 1 ? 5e-6 : k < 8 ? 1e-5 : m->later),
		       "%s, step %d: loss %.9g, expected %.9g", m->name, k, train_loss(&r), loss);
		off = fabs((double)*(float *)train_at(&r, RLX_IO_OUTPUT, "norm") - n);
		CHECKF(off <= (k < 8 ? 1e-4 : 2e-2) * n, "%s, step %d: norm off by %g of %g",
		       m->name, k, off, n);
	}
	fclose(f);
	CHECK_EQ(k, STEPS);
	printf("# %s: off by %.1e at step 1, %.1e up to 8, %.1e up to %d\n", m->name, worst[0],
	       worst[1], worst[2], STEPS);
	train_end(&r);
}

TEST(decoder_of_bytes)
{
	compare(&(struct model){ "decoder", decoder, decoder_batch, 1e-3 });
}

TEST(conv_net_on_digits)
{
	compare(&(struct model){ "digits", digits, digits_batch, 3e-3 });
}

TEST_MAIN()
