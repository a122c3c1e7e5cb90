// SPDX-License-Identifier: MIT
/*
 * A training step of a decoder whose head is its embedding, or of ResNet-50, in bf16 on a GPU: the
 * time of a step, and with -v of each launch in it, as predicted and as measured. train.py has the
 * same steps by PyTorch.
 *
 *	build/test/gpubench/train [-v] [-m] [-p] [-d] [LAYERS DIM HEADS CONTEXT BATCH VOCAB]
 *	build/test/gpubench/train [-v] [-m] [-p] [-d] resnet50 [BATCH SIZE CLASSES]
 *
 * -d: batches are read from the disk while steps run, and it tells for how much of the time the
 * device had nothing to do, and what CPUs copied; -m: values between ops are bf16 as well
 * (RLX_PRECISION_MIXED_BF16); -p: launches as predicted alone, of a device that need not be there
 * (selftests/gpu/dry).
 */
#include "backends/gpu/gpu.h"
#include "base/clock.h"
#include "rt/session.h"
#include "selftests/gpubench/train_bench.h"
#include "selftests/gpubench/train_resnet.h"
#include "selftests/lib/train_disk.h"

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
static struct rlx_loader *open_resnet(struct train_rig *r, const struct rlx_compile_opts *c,
				      bool disk, int n, char **arg)
{
	struct rlx_loader *ld = NULL;
	rlx_value v[2];
	struct rlx_optimizer sgd = { .size = sizeof(sgd), .kind = RLX_SGD, .momentum = 0.9,
				     .decay = 1e-4 };
	struct train_resnet size = { 64, 224, 1000 };
	int64_t *to[] = { &size.batch, &size.size, &size.classes };
	int i;

	for (i = 0; i < n && i < 3; i++)
		*to[i] = atoll(arg[i]);
	train_begin(r);
	if (disk)
		ld = train_disk_images(r->g, size.batch, size.size, size.classes, v);
	open_step(r, ld ? train_resnet_loss_of(r, &size, v[0], v[1]) : train_resnet_loss(r, &size),
		  NULL, &sgd, c);
	if (!ld)
		train_resnet_batch(r, &size);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 1e-2f;
	printf("ResNet-50, %lld images of %lld x %lld", (long long)size.batch,
	       (long long)size.size, (long long)size.size);
	return ld;
}

static struct rlx_loader *open_text(struct train_rig *r, const struct rlx_compile_opts *c,
				    bool disk, int n, char **arg)
{
	struct rlx_loader *ld = NULL;
	rlx_value v[2];
	struct train_decoder size = { 12, 768, 12, 1024, 16, 256, true };
	int64_t *to[] = { &size.layers, &size.dim, &size.heads, &size.context, &size.batch,
			  &size.vocab };
	int i;

	for (i = 0; i < n && i < 6; i++)
		*to[i] = atoll(arg[i]);
	train_begin(r);
	if (disk)
		ld = train_disk_text(r->g, size.batch, size.context, v);
	open_adamw(r, ld ? train_decoder_loss_of(r, &size, v[0], v[1]) :
		   train_decoder_loss(r, &size), c);
	if (!ld)
		train_decoder_batch(r, &size, 0);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 1e-4f;
	printf("decoder of %lld layers, %lld wide, %lld tokens x %lld", (long long)size.layers,
	       (long long)size.dim, (long long)size.context, (long long)size.batch);
	return ld;
}

/* With the next batch bound each time, where there are any, which moves while a step runs. */
static void run_fed(struct train_rig *r, struct rlx_loader *ld, int n)
{
	uint64_t run;

	if (!ld)
		run_steps(r, n);
	for (int i = 0; ld && i < n; i++) {
		train_disk_feed(ld, r->s);
		must(rlx_session_submit(r->s, &run), rlx_session_error(r->s));
		train_disk_prefetch(ld, r->s);
		must(rlx_session_wait(r->s, run, -1), rlx_session_error(r->s));
	}
}

/* Milliseconds of a step to the device, whose launches wait for no host. */
static double measure_device(struct train_rig *r)
{
	struct gpu_exec *x = (struct gpu_exec *)r->s->exec;
	const struct rlx_gpu_api *api = gpu_exec_device(x)->api;
	struct rlx_error err = { 0 };
	void *e[2];
	float ms = 0;
	int i, rc = 0;

	must(gpu_enter(gpu_exec_device(x), &err), &err);
	for (i = 0; i < 2; i++)
		rc = rc ? rc : api->event_new(&e[i], 0);
	for (i = 0; i < 2 + STEPS && !rc; i++) {
		if (i == 2)	/* those ahead keep it busy until it is told of this */
			rc = api->event_record(e[0], x->stream);
		must(rc ? RLX_EIO : gpu_run_parts(x), x->base.err);
	}
	rc = rc ? rc : api->event_record(e[1], x->stream);
	rc = rc ? rc : api->stream_wait(x->stream);
	rc = rc ? rc : api->event_elapsed(&ms, e[0], e[1]);
	CHECK_EQ(rc, 0);
	for (i = 0; i < 2; i++)
		CHECK(!api->event_free(e[i]));
	return (double)ms / STEPS;
}

/* @copied by CPUs in steps that took @ms each. */
static void print_disk(struct train_rig *r, struct rlx_loader *ld, uint64_t copied, double ms)
{
	const uint64_t by_loader = train_disk_print(ld);
	const double device = measure_device(r);

	printf("  to the device a step is %.2f ms: it is idle for %.2f %% of the time (limit 2)\n"
	       "  bytes copied by CPUs: %llu in %d steps, by the loader in all %llu (limit 0)\n",
	       device, 100 * (1 - device / ms), (unsigned long long)copied, ROUNDS * STEPS,
	       (unsigned long long)by_loader);
}

static void measure(struct train_rig *r, struct rlx_loader *ld)
{
	double ms, best = INFINITY, sum = 0;
	struct rlx_stats before, after;
	uint64_t from;
	int i;

	rlx_stats_read(&before);
	for (i = 0; i < ROUNDS; i++) {
		from = rlx_now();
		run_fed(r, ld, STEPS);
		ms = (double)(rlx_now() - from) * 1e-6 / STEPS;
		best = fmin(best, ms);
		sum += ms / ROUNDS;
	}
	rlx_stats_read(&after);
	printf("step %.2f ms at best, %.2f on average; loss %.4f in the end\n", best, sum,
	       train_loss(r));
	if (ld)
		print_disk(r, ld, after.bytes_copied - before.bytes_copied, sum);
}

int main(int argc, char **argv)
{
	struct rlx_compile_opts c = { .size = sizeof(c), .device = "cuda" };
	bool explain = false, mixed = false, predict = false, disk = false;
	struct rlx_loader *ld;
	struct train_rig r;
	int i, n = 0;

	for (i = 1; i < argc; i++) {
		explain |= !strcmp(argv[i], "-v");
		mixed |= !strcmp(argv[i], "-m");
		predict |= !strcmp(argv[i], "-p");
		disk |= !strcmp(argv[i], "-d");
		if (*argv[i] != '-')
			argv[++n] = argv[i];
	}
	c.precision = mixed ? RLX_PRECISION_MIXED_BF16 : RLX_PRECISION_BF16;
	c.flags = explain || predict ? RLX_COMPILE_EXPLAIN : 0;
	if (n && !strcmp(argv[1], "resnet50"))
		ld = open_resnet(&r, &c, disk, n - 1, argv + 2);
	else
		ld = open_text(&r, &c, disk, n, argv + 1);
	printf(", %s: ", mixed ? "mixed bf16" : "bf16");
	fflush(stdout);
	if (!predict)
		run_fed(&r, ld, WARM);
	if (explain || predict)
		print_launches(&r, !predict);
	if (!predict)
		measure(&r, ld);
	train_end(&r);
	train_disk_close(ld);
	return 0;
}
