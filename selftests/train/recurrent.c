// SPDX-License-Identifier: MIT
/* A character model over lstm or gru learns a text by heart: the loss falls to nearly nothing. */
#include "selftests/lib/train_rig.h"

enum { BATCH = 8, STEPS = 20, HIDDEN = 48, WIDTH = 16, CHARS = 32 };

static const char text[] =
	"the north wind and the sun disputed which was the stronger, when a traveler came along "
	"wrapped in a warm cloak. they agreed that the one who first succeeded in making him take "
	"it off should be considered stronger. ";

/* Letters are 0 to 25. */
static int32_t code(char c)
{
	return c >= 'a' && c <= 'z' ? c - 'a' : c == ' ' ? 26 : c == ',' ? 27 : 28;
}

static rlx_value var(struct train_rig *r, const char *name, struct rlx_type t, double size)
{
	return rlx_var(r->g, r->v, name, t, RLX_NORMAL(size), 0);
}

static rlx_value recur(struct train_rig *r, rlx_value x, bool gru)
{
	const int64_t gates = gru ? 3 : 4, h = HIDDEN;
	rlx_value w = var(r, "w", rlx_type(RLX_F32, 1, gates * h, WIDTH), 0.2);
	rlx_value u = var(r, "r", rlx_type(RLX_F32, 1, gates * h, h), 0.15);
	rlx_value b = var(r, "bias", rlx_type(RLX_F32, 1, 2 * gates * h), 0.1);

	if (gru)
		return rlx_emit(r->g, gru, .x = x, .w = w, .r = u, .bias = b,
				.linear_before_reset = true);
	return rlx_emit(r->g, lstm, .x = x, .w = w, .r = u, .bias = b);
}

/* Inputs at [t, b]; the loss is of what comes next. */
static void net(struct train_rig *r, bool gru)
{
	static const struct rlx_optimizer adamw = { .size = sizeof(adamw), .kind = RLX_ADAMW };
	const struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 1 };
	rlx_value x, loss;

	train_begin(r);
	x = rlx_emit(r->g, gather, .x = var(r, "embed", rlx_type(RLX_F32, CHARS, WIDTH), 1),
		     .indices = rlx_input(r->g, "x", rlx_type(RLX_I32, STEPS, BATCH)));
	x = rlx_emit(r->g, reshape, .x = recur(r, x, gru), .shape = RLX_INTS(STEPS, BATCH, HIDDEN));
	x = rlx_emit(r->g, matmul, .a = x,
		     .b = var(r, "head", rlx_type(RLX_F32, HIDDEN, CHARS), 0.1));
	loss = rlx_loss_ce(r->g, x, rlx_input(r->g, "next", rlx_type(RLX_I32, STEPS, BATCH)), NULL);
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &o, &adamw);
	train_open(r, "cpu", 1, NULL, 7);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 0.01f;
}

static void feed(struct train_rig *r, uint64_t *seed)
{
	int32_t *x = train_at(r, RLX_IO_INPUT, "x"), *next = train_at(r, RLX_IO_INPUT, "next");
	int64_t b, t, at;

	for (b = 0; b < BATCH; b++) {
		at = (int64_t)(rlx_test_rand(seed) % (sizeof(text) - 1 - STEPS - 1));
		for (t = 0; t < STEPS; t++) {
			x[t * BATCH + b] = code(text[at + t]);
			next[t * BATCH + b] = code(text[at + t + 1]);
		}
	}
}

static void learn(bool gru)
{
	uint64_t seed = rlx_test_seed();
	double first = 0, last = 0;
	struct train_rig r;
	int i;

	net(&r, gru);
	for (i = 0; i < 400; i++) {
		feed(&r, &seed);
		train_run(&r);
		if (i < 10)
			first += train_loss(&r) / 10;
		if (i >= 390)
			last += train_loss(&r) / 10;
	}
	/* the first letters of a window say little of where in the text it is */
	CHECKF(first > 2.5 && last < 0.6, "%s: the loss went from %g to %g", gru ? "gru" : "lstm",
	       first, last);
	printf("# %s: %g to %g\n", gru ? "gru" : "lstm", first, last);
	train_end(&r);
}

TEST(character_lstm)
{
	learn(false);
}

TEST(character_gru)
{
	learn(true);
}

TEST_MAIN()
