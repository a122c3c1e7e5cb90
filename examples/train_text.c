// SPDX-License-Identifier: MIT
/*
 * Trains a small language model of bytes on a text, and writes some text of its own at the end.
 * Called again with more STEPS it goes on at its last checkpoint, to the same bits. FOLDER is of
 * one TEXT: records that are there are not made anew. It computes on the CPU.
 *
 *	cc train_text.c $(pkg-config --cflags --libs rlx-train) -lm && ./a.out TEXT FOLDER [STEPS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rlx/ckpt.h>
#include <rlx/data.h>
#include <rlx/train.h>

enum { LAYERS = 4, DIM = 128, HEADS = 4, CONTEXT = 64, BATCH = 16, BYTES = 256, SAMPLE = 300 };

static void must(enum rlx_status st, const struct rlx_error *e)
{
	if (!st)
		return;
	fprintf(stderr, "train_text: %s\n", e->text);
	exit(1);
}

/* Loaders read record files: a stream of the text's bytes becomes one, once. */
static struct rlx_loader *open_text(const char *text, const char *folder)
{
	struct rlx_field field = { .name = "tokens", .type = rlx_scalar(RLX_U8) };
	struct rlx_record_opts ro = { .size = sizeof(ro), .flags = RLX_RECORD_STREAM };
	struct rlx_loader_opts lo = { .size = sizeof(lo), .batch = BATCH, .sample = CONTEXT + 1,
				      .shuffle = true, .seed = 1 };
	struct rlx_record_writer *w = NULL;
	struct rlx_loader *ld = NULL;
	struct rlx_error e = { 0 };
	char path[512], part[4096];
	const void *data[] = { part };
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/text.rlxr", folder);
	if (!mkdir(folder, 0777) || access(path, F_OK)) {
		f = fopen(text, "r");
		must(rlx_record_create(path, &field, 1, &ro, &w, &e), &e);
		while (f && (n = fread(part, 1, sizeof(part), f)))
			must(rlx_record_add(w, data, n, &e), &e);
		if (!f || ferror(f)) {
			perror(text);
			exit(1);
		}
		fclose(f);
		must(rlx_record_commit(w, &e), &e);
	}
	lo.path = path;
	must(rlx_loader_open(&lo, &ld, &e), &e);
	return ld;
}

static rlx_value dense(struct rlx_graph *g, struct rlx_vars *v, const char *name, rlx_value x,
		       int64_t in, int64_t out)
{
	rlx_vars_enter(v, name);
	x = rlx_emit(g, matmul, .a = x, .b = rlx_var(g, v, "weight", rlx_type(RLX_F32, in, out),
						     RLX_NORMAL(0.02), RLX_VAR_MATRIX));
	x = rlx_emit(g, add, .a = x, .b = rlx_var(g, v, "bias", rlx_type(RLX_F32, out), RLX_ZEROS,
						  RLX_VAR_NO_DECAY));
	rlx_vars_leave(v);
	return x;
}

static rlx_value norm(struct rlx_graph *g, struct rlx_vars *v, const char *name, rlx_value x)
{
	rlx_vars_enter(v, name);
	x = rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-5f,
		     .gamma = rlx_var(g, v, "weight", rlx_type(RLX_F32, DIM), RLX_ONES,
				      RLX_VAR_NO_DECAY),
		     .beta = rlx_var(g, v, "bias", rlx_type(RLX_F32, DIM), RLX_ZEROS,
				     RLX_VAR_NO_DECAY));
	rlx_vars_leave(v);
	return x;
}

static rlx_value block(struct rlx_graph *g, struct rlx_vars *v, rlx_value x)
{
	rlx_value p[3], h = dense(g, v, "qkv", norm(g, v, "ln1", x), DIM, 3 * DIM);

	rlx_split(g, h, -1, 3, p);
	h = rlx_emit(g, attention, .q = p[0], .k = p[1], .v = p[2], .heads = HEADS,
		     .mask = RLX_MASK_CAUSAL);
	x = rlx_emit(g, add, .a = x, .b = dense(g, v, "proj", h, DIM, DIM));
	h = dense(g, v, "fc", norm(g, v, "ln2", x), DIM, 4 * DIM);
	h = dense(g, v, "out", rlx_emit(g, gelu_tanh, .x = h), 4 * DIM, DIM);
	return rlx_emit(g, add, .a = x, .b = h);
}

/* Of i32[batch, CONTEXT]: [batch, CONTEXT, BYTES], what may follow each. */
static rlx_value logits(struct rlx_graph *g, struct rlx_vars *v, rlx_value tokens)
{
	rlx_value x = rlx_var(g, v, "tok", rlx_type(RLX_F32, BYTES, DIM), RLX_NORMAL(0.02), 0);
	rlx_value pos = rlx_var(g, v, "pos", rlx_type(RLX_F32, CONTEXT, DIM), RLX_NORMAL(0.02), 0);

	x = rlx_emit(g, add, .a = rlx_emit(g, gather, .indices = tokens, .x = x), .b = pos);
	for (int l = 0; l < LAYERS; l++) {
		rlx_vars_enter(v, rlx_name("blocks.%d", l));
		x = block(g, v, x);
		rlx_vars_leave(v);
	}
	return dense(g, v, "head", norm(g, v, "ln", x), DIM, BYTES);
}

static rlx_value part(struct rlx_graph *g, rlx_value x, int64_t from)
{
	x = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(1), .starts = RLX_INTS(from),
		     .ends = RLX_INTS(from + CONTEXT));
	return rlx_emit(g, cast, .x = x, .to = RLX_I32);
}

/* A session of @g that has @states, or makes them. */
static struct rlx_session *opened(struct rlx_graph *g, struct rlx_vars *v,
				  struct rlx_states **states)
{
	struct rlx_compile_opts co = { .size = sizeof(co), .device = "cpu" };
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
				      struct rlx_states **states)
{
	struct rlx_optimizer how = { .size = sizeof(how), .kind = RLX_ADAMW, .beta2 = 0.95,
				     .decay = 0.1 };
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 1 };
	struct rlx_graph *g = rlx_graph_new("step");
	rlx_value row = rlx_loader_input(ld, g, "tokens");
	rlx_value loss = rlx_loss_ce(g, logits(g, v, part(g, row, 0)), part(g, row, 1), NULL);

	rlx_train_step(g, v, loss, rlx_input(g, "lr", rlx_scalar(RLX_F32)), &o, &how);
	return opened(g, v, states);
}

static float *number(struct rlx_session *s, enum rlx_io io, const char *name)
{
	return rlx_buf_ptr(io == RLX_IO_INPUT ? rlx_session_buf(s, io, name) :
			   rlx_session_bound(s, io, name));
}

/* Bytes by their probability, each behind those before; the window moves when it is full. */
static void write_sample(struct rlx_vars *v, struct rlx_states *states)
{
	struct rlx_graph *g = rlx_graph_new("sample");
	rlx_value in = rlx_input(g, "tokens", rlx_type(RLX_I32, 1, CONTEXT));
	struct rlx_session *s;
	int have = 1, i, n;
	int32_t *t;

	rlx_output(g, "p", rlx_emit(g, softmax, .x = logits(g, v, in), .axis = -1));
	s = opened(g, v, &states);
	t = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "tokens"));
	for (i = 0; i < CONTEXT; i++)
		t[i] = '\n';
	for (n = 0; n < SAMPLE; n++) {
		const float *p;
		double u = drand48();

		must(rlx_session_run(s), rlx_session_error(s));
		p = number(s, RLX_IO_OUTPUT, "p") + (have - 1) * BYTES;
		for (i = 0; i < BYTES - 1 && u >= (double)p[i]; i++)
			u -= (double)p[i];
		if (have == CONTEXT)
			memmove(t, t + 1, (CONTEXT - 1) * sizeof(*t));
		have += have < CONTEXT;
		t[have - 1] = i;
		putchar(i == '\n' || (i >= ' ' && i <= '~') ? i : '?');
	}
	putchar('\n');
	rlx_session_free(s);
}

int main(int argc, char **argv)
{
	struct rlx_schedule plan = { .kind = RLX_CONSTANT, .lr = 2e-3, .warmup = 20 };
	uint64_t steps = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000, i = 0;
	struct rlx_states *states = NULL;
	struct rlx_ckpt *ck = NULL;
	struct rlx_error e = { 0 };
	struct rlx_loader *ld;
	struct rlx_session *s;
	struct rlx_vars *v;
	enum rlx_status st;
	char path[512];

	if (argc < 3) {
		fprintf(stderr, "usage: %s TEXT FOLDER [STEPS]\n", *argv);
		return 2;
	}
	v = rlx_vars_new();
	ld = open_text(argv[1], argv[2]);
	s = build_step(ld, v, &states);
	snprintf(path, sizeof(path), "%s/checkpoints", argv[2]);
	must(rlx_ckpt_open(path, NULL, &ck, &e), &e);
	st = rlx_ckpt_load(ck, states, ld, &i);
	must(st == RLX_ENOENT ? RLX_OK : st, rlx_ckpt_error(ck));
	while (i < steps) {
		must(rlx_loader_feed(ld, s), rlx_loader_error(ld));
		*number(s, RLX_IO_INPUT, "lr") = (float)rlx_schedule_at(&plan, i++);
		must(rlx_session_run(s), rlx_session_error(s));
		if (i % 20 == 0 || i == steps)
			printf("%6llu  loss %.4f\n", (unsigned long long)i,
			       (double)*number(s, RLX_IO_OUTPUT, "loss"));
		if (i % 200 == 0 || i == steps)
			must(rlx_ckpt_save(ck, s, ld, i), rlx_ckpt_error(ck));
	}
	must(rlx_ckpt_wait(ck, -1), rlx_ckpt_error(ck));
	write_sample(v, states);
	rlx_session_free(s);
	rlx_ckpt_close(ck);
	rlx_states_put(states);
	rlx_loader_close(ld);
	rlx_vars_free(v);
	return 0;
}
