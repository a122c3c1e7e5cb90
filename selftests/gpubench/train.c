// SPDX-License-Identifier: MIT
/*
 * A training step of a decoder, or of ResNet-50, in bf16 on a GPU: the time of a step, and with
 * -v of each launch in it, as predicted and as measured. train.py has the same steps by PyTorch.
 *
 *	build/test/gpubench/train [-v] [-m] [-p] [LAYERS DIM HEADS CONTEXT BATCH VOCAB]
 *	build/test/gpubench/train [-v] [-m] [-p] resnet50 [BATCH SIZE CLASSES]
 *
 * -m: values between ops are bf16 as well (RLX_PRECISION_MIXED_BF16); -p: launches as predicted
 * alone, of a device that need not be there (selftests/gpu/dry).
 */
#include "base/clock.h"
#include "rt/session.h"
#include "selftests/gpubench/train_bench.h"
#include "selftests/gpubench/train_resnet.h"

enum { WARM = 4, ROUNDS = 5, STEPS = 8 };

/* Each launch: its step, ops, predicted and (@run) measured time, kernel, and what it is of. */
static void print_launches(struct train_rig *r, bool run)
{
	const struct rlx_code *code = r->s->p->code;
	uint64_t *ns = calloc(code->plan->n_step + 1u, sizeof(*ns));
	uint32_t i, k;

	CHECK(ns != NULL);
	printf("\n");
	r->s->exec->step_ns = ns;
	run_steps(r, run ? STEPS : 0);
	r->s->exec->step_ns = NULL;
	for (i = 0; i < code->n_choice; i++) {
		const struct rlx_choice *c = &code->choice[i];
		double sum = 0;

		if (!c->chosen)
			continue;
		printf("%5u", c->step);
		for (k = 0; k < c->n_step; k++) {
			const struct rlx_op_def *def = code->plan->step[c->step + k].def;

			sum += (double)ns[c->step + k] * 1e-3 / STEPS;
			printf("%c%s", k ? ',' : ' ', def ? def->name : "copy");
		}
		printf(" %.1f us predicted, %.1f measured: %s; %s\n", c->ns * 1e-3, sum, c->what,
		       c->problem ? c->problem : "");
	}
	fflush(stdout);
	free(ns);
}

/* SGD with momentum; numbers behind the name. */
static void open_resnet(struct train_rig *r, const struct rlx_compile_opts *c, int n, char **arg)
{
	struct rlx_optimizer sgd = { .size = sizeof(sgd), .kind = RLX_SGD, .momentum = 0.9,
				     .decay = 1e-4 };
	struct train_resnet size = { 64, 224, 1000 };
	int64_t *to[] = { &size.batch, &size.size, &size.classes };
	int i;

	for (i = 0; i < n && i < 3; i++)
		*to[i] = atoll(arg[i]);
	train_begin(r);
	open_step(r, train_resnet_loss(r, &size), NULL, &sgd, c);
	train_resnet_batch(r, &size);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 1e-2f;
	printf("ResNet-50, %lld images of %lld x %lld", (long long)size.batch,
	       (long long)size.size, (long long)size.size);
}

static void open_text(struct train_rig *r, const struct rlx_compile_opts *c, int n, char **arg)
{
	struct train_decoder size = { 12, 768, 12, 1024, 16, 256 };
	int64_t *to[] = { &size.layers, &size.dim, &size.heads, &size.context, &size.batch,
			  &size.vocab };
	int i;

	for (i = 0; i < n && i < 6; i++)
		*to[i] = atoll(arg[i]);
	open_decoder(r, &size, 0, c);
	train_decoder_batch(r, &size, 0);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 1e-4f;
	printf("decoder of %lld layers, %lld wide, %lld tokens x %lld", (long long)size.layers,
	       (long long)size.dim, (long long)size.context, (long long)size.batch);
}

static void measure(struct train_rig *r)
{
	double ms, best = INFINITY, sum = 0;
	uint64_t from;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		from = rlx_now();
		run_steps(r, STEPS);
		ms = (double)(rlx_now() - from) * 1e-6 / STEPS;
		best = fmin(best, ms);
		sum += ms / ROUNDS;
	}
	printf("step %.2f ms at best, %.2f on average; loss %.4f in the end\n", best, sum,
	       train_loss(r));
}

int main(int argc, char **argv)
{
	struct rlx_compile_opts c = { .size = sizeof(c), .device = "cuda" };
	bool explain = false, mixed = false, predict = false;
	struct train_rig r;
	int i, n = 0;

	for (i = 1; i < argc; i++) {
		explain |= !strcmp(argv[i], "-v");
		mixed |= !strcmp(argv[i], "-m");
		predict |= !strcmp(argv[i], "-p");
		if (*argv[i] != '-')
			argv[++n] = argv[i];
	}
	c.precision = mixed ? RLX_PRECISION_MIXED_BF16 : RLX_PRECISION_BF16;
	c.flags = explain || predict ? RLX_COMPILE_EXPLAIN : 0;
	if (n && !strcmp(argv[1], "resnet50"))
		open_resnet(&r, &c, n - 1, argv + 2);
	else
		open_text(&r, &c, n, argv + 1);
	printf(", %s: ", mixed ? "mixed bf16" : "bf16");
	fflush(stdout);
	if (!predict)
		run_steps(&r, WARM);
	if (explain || predict)
		print_launches(&r, !predict);
	if (!predict)
		measure(&r);
	train_end(&r);
	return 0;
}
