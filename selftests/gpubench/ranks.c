// SPDX-License-Identifier: MIT
/*
 * Training steps of a decoder in bf16 on one GPU, and on several by NCCL with the same batch
 * each: what a step takes, and whether all have the same weights behind it.
 *
 *	build/test/gpubench/ranks [RANKS [LAYERS DIM HEADS CONTEXT BATCH]]
 */
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "rlx/comm.h"
#include "selftests/gpubench/train_bench.h"

enum { WARM = 4, ROUNDS = 3, STEPS = 8 };

static struct train_decoder size = { 12, 768, 12, 1024, 16 };

/* Of all states as they are now. */
static uint64_t states_hash(struct train_rig *r)
{
	unsigned int i, n = rlx_program_io_count(r->p, RLX_IO_STATE);
	uint64_t h = 0;

	for (i = 0; i < n; i++) {
		struct rlx_buf b = rlx_session_bound_at(r->s, RLX_IO_STATE, i);

		h = rlx_hash_bytes(rlx_buf_ptr(b), b.bytes, h);
	}
	return h;
}

static void rank_main(struct rlx_arena *at, unsigned int rank, unsigned int ranks)
{
	struct rlx_comm_opts o = { .size = sizeof(o), .arena = at, .rank = rank, .ranks = ranks,
				   .kind = ranks > 1 ? RLX_COMM_NCCL : RLX_COMM_SHM,
				   .timeout_ns = 60000000000 };
	double ms, best = INFINITY, sum = 0;
	char device[16];
	struct rlx_compile_opts how = { .size = sizeof(how), .device = device,
					.precision = RLX_PRECISION_BF16 };
	struct rlx_comm *c;
	struct train_rig r;
	uint64_t from;
	int i;

	must(rlx_comm_new(&o, &c, &r.err), &r.err);
	snprintf(device, sizeof(device), "cuda:%u", rank);
	open_decoder(&r, &size, ranks, &how);
	must(rlx_session_collective(r.s, rlx_comm_collective(c)), rlx_session_error(r.s));
	train_decoder_batch(&r, &size, rank);
	*(float *)train_at(&r, RLX_IO_INPUT, "lr") = 1e-4f;
	run_steps(&r, WARM);
	for (i = 0; i < ROUNDS; i++) {
		must(rlx_comm_barrier(c), rlx_comm_error(c));
		from = rlx_now();
		run_steps(&r, STEPS);
		must(rlx_comm_barrier(c), rlx_comm_error(c));
		ms = (double)(rlx_now() - from) * 1e-6 / STEPS;
		best = fmin(best, ms);
		sum += ms / ROUNDS;
	}
	must(rlx_comm_agree(c, "states' hash", states_hash(&r)), rlx_comm_error(c));
	if (!rank)
		printf("%u ranks: step %.2f ms at best, %.2f on average, %.0f tokens/s; "
		       "loss %.4f\n", ranks, best, sum,
		       1e3 / best * (double)(size.batch * size.context) * ranks, train_loss(&r));
	train_end(&r);
	rlx_comm_free(c);
}

/* True: all ranks of @ranks have ended well. */
static bool measure(unsigned int ranks)
{
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
	return ok;
}

int main(int argc, char **argv)
{
	int64_t *to[] = { &size.layers, &size.dim, &size.heads, &size.context, &size.batch };
	unsigned int most = argc > 1 ? (unsigned int)atoi(argv[1]) : 1, n;
	int i;

	for (i = 2; i < argc && i < 7; i++)
		*to[i - 2] = atoll(argv[i]);
	printf("decoder of %lld layers, %lld wide, %lld tokens x %lld, bf16\n",
	       (long long)size.layers, (long long)size.dim, (long long)size.context,
	       (long long)size.batch);
	fflush(NULL);
	for (n = 1; n <= most; n *= 2)
		if (!measure(n))
			return 1;
	return 0;
}
