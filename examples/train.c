// SPDX-License-Identifier: MIT
/*
 * Trains a classifier of clothes: Debian's dataset-fashion-mnist, read from its files into
 * memory that the program uses in place; a step is one program, whose states stay where they
 * are.
 *
 *	cc train.c $(pkg-config --cflags --libs rlx-train) -lm && ./a.out [STEPS [DEVICE]]
 */
#include <stdio.h>
#include <stdlib.h>

#include <rlx/data.h>
#include <rlx/train.h>

#define FOLDER	"/usr/share/datasets/fashion-mnist/"
#define FILES(what)	"image=" FOLDER what "-images-idx3-ubyte.gz,"	\
			"label=" FOLDER what "-labels-idx1-ubyte.gz"

enum { BATCH = 64, WIDE = 16, CLASSES = 10 };

static void must(enum rlx_status st, const struct rlx_error *e)
{
	if (!st)
		return;
	fprintf(stderr, "train: %s\n", e->text);
	exit(1);
}

/* Convolution, batch norm, rectifier, maxima of 2 x 2. */
static rlx_value conv(struct rlx_graph *g, struct rlx_vars *v, const char *name, rlx_value x,
		      int64_t out, bool train)
{
	const struct rlx_type *t = rlx_type_of(g, x);	/* NULL after a failure */
	int64_t in = t ? t->dim[1] : 1;

	rlx_vars_enter(v, name);
	x = rlx_emit(g, conv, .x = x, .pad = RLX_INTS(1, 1, 1, 1),
		     .w = rlx_var(g, v, "filter", rlx_type(RLX_F32, out, in, 3, 3),
				  RLX_KAIMING((double)in * 9), RLX_VAR_MATRIX));
	x = rlx_batch_norm(g, v, x, train, NULL);
	rlx_vars_leave(v);
	return rlx_emit(g, pool, .x = rlx_emit(g, relu, .x = x), .kind = RLX_POOL_MAX,
			.kernel = RLX_INTS(2, 2), .stride = RLX_INTS(2, 2));
}

static rlx_value logits(struct rlx_graph *g, struct rlx_vars *v, rlx_value image, bool train)
{
	int64_t flat = 2 * WIDE * 7 * 7;
	rlx_value x = rlx_emit(g, cast, .x = image, .to = RLX_F32);

	x = rlx_emit(g, mul, .a = x, .b = rlx_scalar_const(g, RLX_F32, 1 / 255.0));
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(BATCH, 1, 28, 28));
	x = conv(g, v, "first", x, WIDE, train);
	x = conv(g, v, "second", x, 2 * WIDE, train);
	x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(BATCH, flat));
	x = rlx_emit(g, matmul, .a = x, .b = rlx_var(g, v, "head", rlx_type(RLX_F32, flat, CLASSES),
						     RLX_KAIMING((double)flat), 0));
	return rlx_emit(g, add, .a = x, .b = rlx_var(g, v, "bias", rlx_type(RLX_F32, CLASSES),
						     RLX_ZEROS, RLX_VAR_NO_DECAY));
}

static struct rlx_loader *loader(const char *files, bool shuffle)
{
	struct rlx_loader_opts o = { .size = sizeof(o), .path = files, .batch = BATCH,
				     .shuffle = shuffle, .seed = 1 };
	struct rlx_loader *ld = NULL;
	struct rlx_error e = { 0 };

	must(rlx_loader_open(&o, &ld, &e), &e);
	return ld;
}

/* A program of @g, which it keeps, and a session that has @states, or makes them. */
static struct rlx_session *open_session(struct rlx_graph *g, const char *device,
					struct rlx_vars *v, struct rlx_states **states)
{
	struct rlx_compile_opts co = { .size = sizeof(co), .device = device };
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error e = { 0 };

	must(rlx_graph_finish(g), rlx_graph_error(g));
	must(rlx_compile(g, &co, &p, &e), &e);
	if (!*states) {
		must(rlx_states_new(p, NULL, states, &e), &e);
		must(rlx_states_init(*states, v, 1, &e), &e);
	}
	so.states = *states;
	must(rlx_session_new(p, &so, &s, &e), &e);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static struct rlx_session *build_step(struct rlx_loader *ld, struct rlx_vars *v,
				      const char *device, struct rlx_states **states)
{
	struct rlx_optimizer how = { .size = sizeof(how), .kind = RLX_ADAMW, .decay = 0.01 };
	struct rlx_graph *g = rlx_graph_new("step");
	rlx_value label = rlx_emit(g, cast, .x = rlx_loader_input(ld, g, "label"), .to = RLX_I32);

	rlx_train_step(g, v, rlx_loss_ce(g, logits(g, v, rlx_loader_input(ld, g, "image"), true),
					 label, NULL),
		       rlx_input(g, "lr", rlx_scalar(RLX_F32)), NULL, &how);
	return open_session(g, device, v, states);
}

/* The same variables, with the running statistics; how many of a batch are right. */
static struct rlx_session *build_eval(struct rlx_loader *ld, struct rlx_vars *v,
				      struct rlx_states **states)
{
	struct rlx_graph *g = rlx_graph_new("eval");
	rlx_value y = logits(g, v, rlx_loader_input(ld, g, "image"), false);

	y = rlx_emit(g, cast, .x = rlx_emit(g, arg_reduce, .x = y, .axis = 1), .to = RLX_U8);
	y = rlx_emit(g, eq, .a = y, .b = rlx_loader_input(ld, g, "label"));
	rlx_output(g, "right", rlx_emit(g, reduce, .x = rlx_emit(g, cast, .x = y, .to = RLX_F32)));
	return open_session(g, "cpu", v, states);
}

static float *number(struct rlx_session *s, enum rlx_io io, const char *name)
{
	return rlx_buf_ptr(io == RLX_IO_INPUT ? rlx_session_buf(s, io, name) :
			   rlx_session_bound(s, io, name));
}

int main(int argc, char **argv)
{
	uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000, i, n = 100;
	struct rlx_schedule plan = { .kind = RLX_COSINE, .lr = 3e-3, .floor = 0.05, .warmup = 20,
				     .steps = steps };
	struct rlx_loader *ld = loader(FILES("train"), true), *test = loader(FILES("t10k"), false);
	struct rlx_vars *v = rlx_vars_new();
	struct rlx_states *states = NULL, *own = NULL;
	struct rlx_session *s = build_step(ld, v, argc > 2 ? argv[2] : NULL, &states), *e;
	double right = 0;

	for (i = 0; i < steps; i++) {
		must(rlx_loader_feed(ld, s), rlx_loader_error(ld));
		*number(s, RLX_IO_INPUT, "lr") = (float)rlx_schedule_at(&plan, i);
		must(rlx_session_run(s), rlx_session_error(s));
		if (i % 100 == 0)
			printf("%6llu  loss %.4f\n", (unsigned long long)i,
			       (double)*number(s, RLX_IO_OUTPUT, "loss"));
	}
	/* on a device the states are in its memory: they come back when they are looked at */
	own = argc > 2 ? NULL : states;
	e = build_eval(test, v, &own);
	for (i = 0; own != states && i < rlx_states_count(own); i++) {
		struct rlx_buf b = rlx_states_buf(own, (unsigned int)i);
		struct rlx_type t = *rlx_states_type(own, (unsigned int)i);

		must(rlx_session_get(s, RLX_IO_STATE, rlx_states_name(own, (unsigned int)i), t,
				     rlx_buf_ptr(b)), rlx_session_error(s));
	}
	for (i = 0; i < n; i++) {
		must(rlx_loader_feed(test, e), rlx_loader_error(test));
		must(rlx_session_run(e), rlx_session_error(e));
		right += (double)*number(e, RLX_IO_OUTPUT, "right");
	}
	printf("%.2f %% of %llu images right\n", 100 * right / (double)(n * BATCH),
	       (unsigned long long)(n * BATCH));
	rlx_session_free(e);
	rlx_session_free(s);
	if (own != states)
		rlx_states_put(own);
	rlx_states_put(states);
	rlx_loader_close(test);
	rlx_loader_close(ld);
	rlx_vars_free(v);
	return 0;
}
