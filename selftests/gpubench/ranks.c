// SPDX-License-Identifier: MIT
/*
 * Training steps in bf16 on one GPU, and on several by NCCL with the same batch each: what a step
 * takes, of how much memory, and whether all have the same weights behind it.
 *
 *	build/test/gpubench/ranks [-m] [-z] [-b MIB] [RANKS [LAYERS DIM HEADS CONTEXT BATCH VOCAB]]
 *	build/test/gpubench/ranks [-m] [-z] [-b MIB] RANKS resnet50 [BATCH SIZE CLASSES]
 *
 * Of a decoder whose head is its embedding, with AdamW, or of ResNet-50, with SGD. -m: values
 * between ops are bf16 as well (RLX_PRECISION_MIXED_BF16); -z: ranks have parts of the optimizer's
 * states (rlx_train_opts.zero); -b: what the backward pass may have of the forward one (memory).
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "rlx/comm.h"
#include "rt/session.h"
#include "selftests/gpu/memory_left.h"
#include "selftests/gpubench/train_bench.h"
#include "selftests/gpubench/train_resnet.h"

enum { WARM = 4, ROUNDS = 3, STEPS = 8 };

static struct train_decoder decoder = { 12, 768, 12, 1024, 16, 50304, true };
static struct train_resnet net = { 64, 224, 1000 };
static bool resnet, mixed, zero;
static uint64_t mib;

/* Of all states as they are now, but for a rank's own parts. */
static uint64_t states_hash(struct train_rig *r)
{
	unsigned int i, n = rlx_program_io_count(r->p, RLX_IO_STATE);
	uint64_t h = 0;

	for (i = 0; i < n; i++) {
		struct rlx_buf b = rlx_session_bound_at(r->s, RLX_IO_STATE, i);

		if (strncmp(rlx_program_io_name(r->p, RLX_IO_STATE, i), "zero.", 5))
			h = rlx_hash_bytes(rlx_buf_ptr(b), b.bytes, h);
	}
	return h;
}

/* Each rank has a batch of its own; of images the labels differ. */
static void open_rank(struct train_rig *r, unsigned int rank, unsigned int ranks,
		      const struct rlx_compile_opts *c)
{
	struct rlx_optimizer adamw = { .size = sizeof(adamw), .kind = RLX_ADAMW, .decay = 0.1 };
	struct rlx_optimizer sgd = { .size = sizeof(sgd), .kind = RLX_SGD, .momentum = 0.9,
				     .decay = 1e-4 };
	struct rlx_train_opts o = { .size = sizeof(o), .ranks = ranks, .clip_norm = resnet ? 0 : 1,
				    .zero = zero && ranks > 1, .memory = mib << 20 };
	int32_t *y;
	int64_t i;

	train_begin(r);
	open_step(r, resnet ? train_resnet_loss(r, &net) : train_decoder_loss(r, &decoder), &o,
		  resnet ? &sgd : &adamw, c);
	if (!resnet)
		train_decoder_batch(r, &decoder, rank);
	else
		train_resnet_batch(r, &net);
	y = train_at(r, RLX_IO_INPUT, "y");
	for (i = 0; resnet && i < net.batch; i++)
		y[i] = (y[i] + 7 * (int32_t)rank) % (int32_t)net.classes;
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = resnet ? 1e-2f : 1e-4f;
}

/* GiB of its device that are in use: a rank has it alone. */
static double memory_used(struct train_rig *r)
{
	struct gpu_device *d = gpu_exec_device((struct gpu_exec *)r->s->exec);
	struct rlx_error err = { 0 };

	must(gpu_enter(d, &err), &err);
	return (double)(memory_all() - memory_left()) / (1 << 30);
}

/* What was measured, by rank 0 but for memory, for the process that started it. */
static struct result {
	double	best, average, alone, memory[8];
} *result;

static void time_steps(struct train_rig *r, struct rlx_comm *c, struct result *to)
{
	double ms, best = INFINITY, sum = 0;
	uint64_t from;
	int i;

	run_steps(r, WARM);
	for (i = 0; i < ROUNDS; i++) {
		must(rlx_comm_barrier(c), rlx_comm_error(c));
		from = rlx_now();
		run_steps(r, STEPS);
		must(rlx_comm_barrier(c), rlx_comm_error(c));
		ms = (double)(rlx_now() - from) * 1e-6 / STEPS;
		best = fmin(best, ms);
		sum += ms / ROUNDS;
	}
	to->best = best;
	to->average = sum;
}

/* The same launches without the other ranks; what comes of it is of no use. */
static void time_alone(struct train_rig *r, struct rlx_comm *c, struct result *to)
{
	struct result own;

	must(rlx_session_collective(r->s, rlx_comm_idle(c)), rlx_session_error(r->s));
	time_steps(r, c, &own);
	to->alone = own.best;
}

static void rank_main(struct rlx_arena *at, unsigned int rank, unsigned int ranks)
{
	struct rlx_comm_opts o = { .size = sizeof(o), .arena = at, .rank = rank, .ranks = ranks,
				   .kind = ranks > 1 ? RLX_COMM_NCCL : RLX_COMM_SHM,
				   .timeout_ns = 60000000000 };
	struct result own = { 0 };
	char device[16];
	struct rlx_compile_opts how = { .size = sizeof(how), .device = device };
	struct rlx_comm *c;
	struct train_rig r;

	how.precision = mixed ? RLX_PRECISION_MIXED_BF16 : RLX_PRECISION_BF16;
	must(rlx_comm_new(&o, &c, &r.err), &r.err);
	snprintf(device, sizeof(device), "cuda:%u", rank);
	open_rank(&r, rank, ranks, &how);
	must(rlx_session_collective(r.s, rlx_comm_collective(c)), rlx_session_error(r.s));
	time_steps(&r, c, &own);
	must(rlx_comm_agree(c, "states' hash", states_hash(&r)), rlx_comm_error(c));
	if (!rank)
		printf("%u rank%s%s: step %.2f ms at best, %.2f on average; loss %.4f", ranks,
		       ranks > 1 ? "s" : "", zero && ranks > 1 ? ", parts" : "", own.best,
		       own.average, train_loss(&r));
	own.memory[rank] = memory_used(&r);
	if (ranks > 1)
		time_alone(&r, c, &own);
	result->memory[rank] = own.memory[rank];
	if (!rank) {
		result->best = own.best;
		result->average = own.average;
		result->alone = own.alone;
	}
	train_end(&r);
	rlx_comm_free(c);
}

/* True: all ranks of @ranks have ended well. @one: what a step of one took; 0: not known. */
static bool measure(unsigned int ranks, double one)
{
	const double rows = resnet ? (double)net.batch : (double)(decoder.batch * decoder.context);
	struct rlx_error err = { 0 };
	struct rlx_arena *at;
	unsigned int r;
	bool ok = true;
	int status;

	must(rlx_comm_arena(ranks, &at, &err), &err);
	for (r = 0; r < ranks; r++)
		if (!fork()) {
			rank_main(at, r, ranks);
			fflush(NULL);
			_exit(0);
		}
	while (wait(&status) > 0)
		ok = ok && !status;
	rlx_arena_put(at);
	if (!ok)
		return false;
	printf(", %.0f %s/s", 1e3 / result->best * rows * ranks, resnet ? "images" : "tokens");
	if (one > 0)
		printf(" (%.3f times one), without sums %.2f ms", one * ranks / result->best,
		       result->alone);
	for (r = 0; r < ranks; r++)
		printf("%s %.2f", r ? "," : "; GiB in use:", result->memory[r]);
	printf("\n");
	fflush(stdout);
	return true;
}

static void parse(int n, char **arg)
{
	int64_t *size[] = { &decoder.layers, &decoder.dim, &decoder.heads, &decoder.context,
			    &decoder.batch, &decoder.vocab };
	int64_t *image[] = { &net.batch, &net.size, &net.classes };
	int i;

	resnet = n && !strcmp(arg[0], "resnet50");
	for (i = 0; i + resnet < n && i < (resnet ? 3 : 6); i++)
		*(resnet ? image : size)[i] = atoll(arg[i + resnet]);
	if (resnet)
		printf("ResNet-50, %lld images of %lld x %lld a rank", (long long)net.batch,
		       (long long)net.size, (long long)net.size);
	else
		printf("decoder of %lld layers, %lld wide, %lld tokens x %lld a rank",
		       (long long)decoder.layers, (long long)decoder.dim,
		       (long long)decoder.context, (long long)decoder.batch);
	printf(", %s\n", mixed ? "mixed bf16" : "bf16");
	fflush(NULL);
}

int main(int argc, char **argv)
{
	unsigned int most, n;
	double one = 0;
	int i, k = 0;

	for (i = 1; i < argc; i++) {
		mixed |= !strcmp(argv[i], "-m");
		zero |= !strcmp(argv[i], "-z");
		if (!strcmp(argv[i], "-b") && i + 1 < argc)
			mib = (uint64_t)atoll(argv[++i]);
		else if (*argv[i] != '-')
			argv[++k] = argv[i];
	}
	most = k ? (unsigned int)atoi(argv[1]) : 1;
	CHECKF(most && most <= 8, "from 1 to 8 ranks");
	result = mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	CHECK(result != MAP_FAILED);
	parse(k > 1 ? k - 1 : 0, argv + 2);
	for (n = 1; n <= most; n *= 2) {
		if (!measure(n, one))
			return 1;
		one = n == 1 ? result->best : one;
	}
	return 0;
}
