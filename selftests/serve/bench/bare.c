// SPDX-License-Identifier: MIT
/*
 * The runs that rlxd does, without a server: MODEL SEQ BATCH THREADS. For each line of
 * standard input runs for as many seconds as it says, then prints the median of a run in
 * microseconds, and rows a second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "rlx/bert.h"
#include "rlx/run.h"

enum { RUNS_MAX = 1 << 20 };

static double now_us(void)
{
	return 1e-3 * (double)rlx_now();
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int measure(struct rlx_session *s, int64_t batch, double seconds, double *us)
{
	double begin, at;
	size_t n = 0;

	for (begin = at = now_us(); n < RUNS_MAX && at - begin < seconds * 1e6; n++) {
		if (rlx_session_run(s))
			return 1;
		us[n] = now_us() - at;
		/* A server waits between requests, which a scheduler rewards. */
		if (batch == 1)
			nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
		at = now_us();
	}
	if (!n)
		return 1;
	qsort(us, n, sizeof(*us), compare);
	printf("%.1f %.1f\n", us[n / 2], (double)(n * (size_t)batch) / (at - begin) * 1e6);
	fflush(stdout);
	return 0;
}

static int run(struct rlx_session *s, int64_t seq, int64_t batch)
{
	int64_t *ids = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "input_ids"));
	int64_t *len = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "lengths")), i;
	double *us = rlx_malloc(RUNS_MAX * sizeof(*us));
	char line[64];
	int rc = !us;

	for (i = 0; i < seq * batch; i++)
		ids[i] = 2000 + i % 5000;
	for (i = 0; i < batch; i++)
		len[i] = seq;
	for (i = 0; !rc && i < 5; i++)
		rc = rlx_session_run(s);
	while (!rc && fgets(line, sizeof(line), stdin))
		rc = measure(s, batch, atof(line), us);
	rlx_free(us);
	return rc;
}

int main(int argc, char **argv)
{
	struct rlx_bert_opts o = { .size = sizeof(o), .pool = RLX_BERT_MEAN, .normalise = true };
	struct rlx_compile_opts c = { .size = sizeof(c) };
	struct rlx_session *s = NULL;
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;
	struct rlx_bert *b = NULL;
	int rc = 1;

	if (argc != 5)
		return 2;
	c.threads = (unsigned int)atoi(argv[4]);
	o.seq = atoll(argv[2]);
	o.batch = atoll(argv[3]);
	if (rlx_bert_open(argv[1], &b, &err) || rlx_bert_graph(b, &o, &g, &err) ||
	    rlx_compile(g, &c, &p, &err) || rlx_session_new(p, NULL, &s, &err))
		fprintf(stderr, "bare: %s\n", err.text);
	else
		rc = run(s, o.seq, o.batch);
	if (s)
		rlx_session_free(s);
	rlx_program_put(p);
	if (g)
		rlx_graph_put(g);
	rlx_bert_put(b);
	return rc;
}
