// SPDX-License-Identifier: MIT
/*
 * A training step of a decoder in bf16 on a GPU: the time of a step, and with -v of each launch
 * in it, as predicted and as measured. train.py has the same step by PyTorch.
 *
 *	build/test/gpubench/train [-v] [-m] [LAYERS DIM HEADS CONTEXT BATCH]
 *
 * -m: values between ops are bf16 as well (RLX_PRECISION_MIXED_BF16).
 */
#include "base/clock.h"
#include "rt/session.h"
#include "selftests/gpubench/train_bench.h"

enum { WARM = 4, ROUNDS = 5, STEPS = 8 };

/* Each launch: its step, ops, predicted and measured time, kernel, and what it is of. */
static void print_launches(struct train_rig *r)
{
	const struct rlx_code *code = r->s->p->code;
	uint64_t *ns = calloc(code->plan->n_step + 1u, sizeof(*ns));
	uint32_t i, k;

	CHECK(ns != NULL);
	r->s->exec->step_ns = ns;
	run_steps(r, STEPS);
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
	free(ns);
}

int main(int argc, char **argv)
{
	struct rlx_compile_opts c = { .size = sizeof(c), .device = "cuda" };
	bool explain = false, mixed = false;
	struct train_decoder size = { 12, 768, 12, 1024, 16 };
	int64_t *to[] = { &size.layers, &size.dim, &size.heads, &size.context, &size.batch };
	double ms, best = INFINITY, sum = 0;
	struct train_rig r;
	uint64_t from;
	int i, n = 0;

	for (i = 1; i < argc; i++) {
		explain |= !strcmp(argv[i], "-v");
		mixed |= !strcmp(argv[i], "-m");
		if (*argv[i] != '-' && n < 5)
			*to[n++] = atoll(argv[i]);
	}
	c.precision = mixed ? RLX_PRECISION_MIXED_BF16 : RLX_PRECISION_BF16;
	c.flags = explain ? RLX_COMPILE_EXPLAIN : 0;
	open_step(&r, &size, 0, &c);
	train_decoder_batch(&r, &size, 0);
	*(float *)train_at(&r, RLX_IO_INPUT, "lr") = 1e-4f;
	run_steps(&r, WARM);
	for (i = 0; i < ROUNDS; i++) {
		from = rlx_now();
		run_steps(&r, STEPS);
		ms = (double)(rlx_now() - from) * 1e-6 / STEPS;
		best = fmin(best, ms);
		sum += ms / ROUNDS;
	}
	printf("decoder of %lld layers, %lld wide, %lld tokens x %lld, bf16: step %.2f ms at best, "
	       "%.2f on average; loss %.4f after %d\n", (long long)size.layers,
	       (long long)size.dim, (long long)size.context, (long long)size.batch, best, sum,
	       train_loss(&r), WARM + ROUNDS * STEPS);
	if (explain)
		print_launches(&r);
	train_end(&r);
	return 0;
}
