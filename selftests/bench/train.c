// SPDX-License-Identifier: MIT
/*
 * Training steps on the CPU: AdamW with the gradient's norm clipped to 1, of a decoder of bytes
 * and of a convolutional net with batch norm. RLX_ISA forces a level.
 *
 *	build/test/bench/train
 *	build/test/bench/train THREADS PRECISION decoder LAYERS DIM HEADS CONTEXT BATCH [MIB]
 *	build/test/bench/train THREADS PRECISION cnn CHANNELS SIDE BATCH
 *
 * MIB: what the backward pass may have of the forward one (rlx_train_opts.memory).
 * PRECISION is f32, bf16 or mixed. Without arguments it prints the fastest step of some; with
 * them it does what lines of its input say, for train.py, which has the same steps by PyTorch:
 *
 *	weights PATH	writes the variables' first values: lines "NAME COUNT", COUNT floats each
 *	workspace	prints its bytes
 *	SECONDS		takes steps for so long, prints the fastest in ms, the least that one
 *			took of all CPUs in ms, and the last loss
 */
#include <time.h>

#include "base/clock.h"
#include "selftests/lib/train_cnn.h"

struct subject {
	struct train_rig	r;
	bool			cnn;
	struct train_decoder	decoder;
	struct train_cnn	net;
	unsigned int		threads;
	enum rlx_precision	precision;
	int64_t			mib;
};

static void open_subject(struct subject *s)
{
	struct rlx_optimizer adamw = { .size = sizeof(adamw), .kind = RLX_ADAMW, .beta2 = 0.95,
				       .decay = 0.1 };
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 1,
				    .memory = (uint64_t)s->mib << 20 };
	struct rlx_compile_opts c = { .size = sizeof(c), .device = "cpu", .threads = s->threads,
				      .precision = s->precision };
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct train_rig *r = &s->r;
	rlx_value loss;

	train_begin(r);
	loss = s->cnn ? train_cnn_loss(r, &s->net) : train_decoder_loss(r, &s->decoder);
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &o, &adamw);
	CHECKF(!rlx_graph_finish(r->g), "%s", rlx_graph_error(r->g)->text);
	CHECKF(!rlx_compile(r->g, &c, &r->p, &r->err), "%s", r->err.text);
	CHECKF(!rlx_states_new(r->p, NULL, &r->states, &r->err), "%s", r->err.text);
	CHECKF(!rlx_states_init(r->states, r->v, 1, &r->err), "%s", r->err.text);
	so.states = r->states;
	CHECKF(!rlx_session_new(r->p, &so, &r->s, &r->err), "%s", r->err.text);
	if (s->cnn)
		train_cnn_batch(r, &s->net);
	else
		train_decoder_batch(r, &s->decoder, 0);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 1e-4f;
}

/* By all threads: beside other work it says more than what a clock on the wall does. */
static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ms of the fastest step of at least one, for @seconds; *@cpu: of CPUs. */
static double turn(struct subject *s, double seconds, double *cpu)
{
	uint64_t end = rlx_now() + (uint64_t)(seconds * 1e9), begin, now;
	double best = INFINITY, from;

	*cpu = INFINITY;
	do {
		from = cpu_ms();
		begin = rlx_now();
		train_run(&s->r);
		now = rlx_now();
		*cpu = fmin(*cpu, cpu_ms() - from);
		best = fmin(best, (double)(now - begin) * 1e-6);
	} while (now < end);
	return best;
}

static void write_weights(struct subject *s, const char *path)
{
	struct rlx_states *all = s->r.states;
	FILE *f = fopen(path, "w");
	unsigned int i;

	CHECKF(f, "%s cannot be written", path);
	for (i = 0; i < rlx_states_count(all); i++) {
		const struct rlx_type *t = rlx_states_type(all, i);
		size_t n = (size_t)rlx_type_count(t);

		if (t->dtype != RLX_F32)
			continue;
		fprintf(f, "%s %zu\n", rlx_states_name(all, i), n);
		CHECK_EQ(fwrite(rlx_buf_ptr(rlx_states_buf(all, i)), sizeof(float), n, f), n);
	}
	CHECK(!fclose(f));
}

static int serve(struct subject *s)
{
	struct rlx_program_info info;
	char line[600];
	double seconds, ms, cpu;

	open_subject(s);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "weights ", 8)) {
			write_weights(s, line + 8);
			printf("written\n");
		} else if (!strcmp(line, "workspace")) {
			rlx_program_info(s->r.p, &info);
			printf("%llu\n", (unsigned long long)info.work_bytes);
		} else if (sscanf(line, "%lf", &seconds) == 1) {
			ms = turn(s, seconds, &cpu);
			printf("%.4f %.4f %.6f\n", ms, cpu, train_loss(&s->r));
		} else {
			CHECKF(false, "a line '%s'", line);
		}
		fflush(stdout);
	}
	train_end(&s->r);
	return 0;
}

static const struct {
	const char		*name;
	enum rlx_precision	 precision;
} precisions[] = {
	{ "f32", RLX_PRECISION_AS_WRITTEN }, { "bf16", RLX_PRECISION_BF16 },
	{ "mixed", RLX_PRECISION_MIXED_BF16 },
};

static void print_table(void)
{
	static const struct subject some[] = {
		{ .decoder = { 4, 128, 4, 128, 16 } },
		{ .cnn = true, .net = { 32, 28, 64 } },
	};
	unsigned int i, k, threads;
	struct subject s;
	double cpu;

	printf("fastest step, ms     threads      f32     bf16    mixed\n");
	for (i = 0; i < sizeof(some) / sizeof(*some); i++)
		for (threads = 1; threads <= 2; threads++) {
			printf("%-20s %7u", some[i].cnn ? "cnn 32 28 64" : "decoder 4 128 4 128 16",
			       threads);
			for (k = 0; k < 3; k++) {
				s = some[i];
				s.threads = threads;
				s.precision = precisions[k].precision;
				open_subject(&s);
				turn(&s, 0.2, &cpu);
				printf(" %8.2f", turn(&s, 1, &cpu));
				train_end(&s.r);
			}
			printf("\n");
		}
}

static void parse(struct subject *s, int n, char **arg)
{
	int64_t *decoder[] = { &s->decoder.layers, &s->decoder.dim, &s->decoder.heads,
			       &s->decoder.context, &s->decoder.batch, &s->mib };
	int64_t *net[] = { &s->net.channels, &s->net.side, &s->net.batch };
	int i, want;

	CHECKF(n > 3, "THREADS PRECISION decoder|cnn SIZES");
	s->threads = (unsigned int)atoi(arg[0]);
	for (i = 0; i < 3 && strcmp(arg[1], precisions[i].name);)
		i++;
	CHECKF(i < 3, "PRECISION is '%s', want f32, bf16 or mixed", arg[1]);
	s->precision = precisions[i].precision;
	s->cnn = !strcmp(arg[2], "cnn");
	CHECKF(s->cnn || !strcmp(arg[2], "decoder"), "'%s', want decoder or cnn", arg[2]);
	want = s->cnn ? 3 : n == 9 ? 6 : 5;
	CHECKF(n == 3 + want, "%s has %d sizes", arg[2], want);
	for (i = 0; i < want; i++)
		*(s->cnn ? net : decoder)[i] = atoll(arg[3 + i]);
}

int main(int argc, char **argv)
{
	struct subject s = { .cnn = false };

	if (argc > 1) {
		parse(&s, argc - 1, argv + 1);
		return serve(&s);
	}
	print_table();
	return 0;
}
