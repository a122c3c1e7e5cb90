// SPDX-License-Identifier: MIT
/*
 * Encoders of MiniLM's and BERT-base's size with random weights: f32 as written, bf16 and
 * mixed-bf16 in turns, fastest and median run, and f32's time by each. RLX_ISA forces a
 * level.
 *
 *	build/test/bench/encoder [SECONDS]
 *
 * SECONDS is the time each precision gets in all per row (1).
 */
#include "base/clock.h"
#include "rlx/bert.h"
#include "rlx/compile.h"
#include "rlx/run.h"
#include "selftests/lib/tiny_bert.h"

enum { PRECISIONS = 3, TURNS = 8, MOST_RUNS = 4096 };

static const enum rlx_precision precisions[PRECISIONS] = {
	RLX_PRECISION_AS_WRITTEN, RLX_PRECISION_BF16, RLX_PRECISION_MIXED_BF16,
};

struct side {
	struct rlx_session	*s;
	double			us[MOST_RUNS];
	size_t			n;
};

static void must(enum rlx_status st, const struct rlx_error *err)
{
	CHECKF(!st, "%s", err->text);
}

static struct rlx_bert *model(const struct tb_size *size, uint64_t *seed)
{
	char dir[] = "/tmp/rlx-encoder.XXXXXX";
	struct rlx_error err = { 0 };
	struct tiny_bert b;
	struct rlx_bert *m;

	CHECK(mkdtemp(dir));
	tb_init_size(&b, size, seed);
	tb_write(&b, dir);
	tb_fini(&b);
	must(rlx_bert_open(dir, &m, &err), &err);
	tb_remove(dir);
	return m;
}

static struct rlx_session *session(struct rlx_bert *m, int64_t batch, int64_t seq,
				   unsigned int threads, enum rlx_precision precision)
{
	struct rlx_bert_opts o = { .size = sizeof(o), .batch = batch, .seq = seq,
				   .pool = RLX_BERT_MEAN };
	struct rlx_compile_opts c = { .size = sizeof(c), .threads = threads,
				      .precision = precision };
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	struct rlx_graph *g;
	int64_t *ids, *lengths, i;

	must(rlx_bert_graph(m, &o, &g, &err), &err);
	must(rlx_compile(g, &c, &p, &err), &err);
	must(rlx_session_new(p, NULL, &s, &err), &err);
	rlx_program_put(p);
	rlx_graph_put(g);
	ids = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "input_ids"));
	lengths = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "lengths"));
	CHECK(ids && lengths);
	for (i = 0; i < batch * seq; i++)
		ids[i] = i * 37 % 1000;
	for (i = 0; i < batch; i++)
		lengths[i] = seq;
	return s;
}

static void turn(struct side *d, double us)
{
	uint64_t end = rlx_now() + (uint64_t)(us * 1e3), begin;

	must(rlx_session_run(d->s), rlx_session_error(d->s));	/* wakes the threads */
	do {
		begin = rlx_now();
		must(rlx_session_run(d->s), rlx_session_error(d->s));
		if (d->n < MOST_RUNS)
			d->us[d->n++] = (double)(rlx_now() - begin) * 1e-3;
	} while (rlx_now() < end);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void bench(struct rlx_bert *m, const char *name, int64_t batch, int64_t seq,
		  unsigned int threads, double seconds)
{
	static struct side side[PRECISIONS];
	int i, t;

	for (i = 0; i < PRECISIONS; i++) {
		side[i].n = 0;
		side[i].s = session(m, batch, seq, threads, precisions[i]);
	}
	for (t = 0; t < TURNS; t++)
		for (i = 0; i < PRECISIONS; i++)
			turn(&side[i], seconds / TURNS * 1e6);
	printf("%-10s %2dx%-4d %u", name, (int)batch, (int)seq, threads);
	for (i = 0; i < PRECISIONS; i++) {
		qsort(side[i].us, side[i].n, sizeof(double), by_value);
		printf("  %9.1f %9.1f (%.2f)", side[i].us[0], side[i].us[side[i].n / 2],
		       side[0].us[0] / side[i].us[0]);
		rlx_session_free(side[i].s);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	static const struct tb_size minilm = { 384, 6, 12, 1536, 30522, 512, 2 };
	static const struct tb_size base = { 768, 7, 12, 3072, 1000, 512, 2 };
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	uint64_t seed = rlx_test_seed();
	struct rlx_bert *small, *large;
	unsigned int threads;

	setlinebuf(stdout);
	if (!(seconds > 0)) {
		fprintf(stderr, "usage: encoder [SECONDS]\n");
		return 1;
	}
	small = model(&minilm, &seed);
	large = model(&base, &seed);
	printf("us, fastest and median (f32's fastest by it)\n%-10s %-7s t  %-26s  %-26s  %s\n",
	       "model", "shape", "f32", "bf16", "mixed-bf16");
	for (threads = 1; threads <= 2; threads++) {
		bench(small, "MiniLM", 1, 16, threads, seconds);
		bench(small, "MiniLM", 1, 32, threads, seconds);
		bench(small, "MiniLM", 1, 128, threads, seconds);
		bench(small, "MiniLM", 8, 128, threads, seconds);
		bench(large, "BERT 7", 1, 128, threads, seconds);
	}
	rlx_bert_put(small);
	rlx_bert_put(large);
	return 0;
}
