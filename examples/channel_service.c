// SPDX-License-Identifier: MIT
/*
 * A complete low-latency service: a small model, run in place on the memory of its
 * clients. channel_client.c is one.
 *
 *	cc channel_service.c $(pkg-config --cflags --libs rlx) -o service
 *	./service /tmp/model.sock
 */
#include <signal.h>
#include <stdio.h>

#include <rlx/run.h>
#include <rlx/serve.h>

enum { ROWS = 8, IN = 64, OUT = 16, BATCH = 16, OP_INFER = 1 };

static struct rlx_service *service;

static void on_signal(int sig)
{
	rlx_service_stop(service);	/* fetch ends when all is answered */
}

/* softmax(x * w), for a weight that needs no file. */
static struct rlx_program *build(struct rlx_error *err)
{
	static float weight[IN * OUT];
	struct rlx_graph *g = rlx_graph_new("example");
	struct rlx_program *p = NULL;
	rlx_value x, w, y;
	int i;

	for (i = 0; i < IN * OUT; i++)
		weight[i] = (float)(i * 37 % 101) / 101;
	x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, IN));
	w = rlx_constant(g, rlx_type(RLX_F32, IN, OUT), weight);
	y = rlx_emit(g, matmul, .a = x, .b = w);
	rlx_output(g, "y", rlx_emit(g, softmax, .x = y, .axis = -1));
	if (rlx_graph_finish(g))
		*err = *rlx_graph_error(g);
	else if (rlx_compile(g, NULL, &p, err))
		p = NULL;
	rlx_graph_put(g);
	return p;
}

static enum rlx_status bind(struct rlx_session *s, enum rlx_io io,
			    const char *name, const struct rlx_work_slice *slice)
{
	struct rlx_buf buf = { slice->arena, slice->offset, slice->length };

	return rlx_session_bind(s, io, name, buf);
}

/*
 * Slices are checked: they lie in the client's arena, and allow what they say. What
 * a request means is for us to check.
 */
static enum rlx_status infer(struct rlx_session *s, const struct rlx_work *w)
{
	enum rlx_status st;

	if (w->opcode != OP_INFER)
		return RLX_ENOSUP;
	if (w->nr_slices != 2 || !(w->slice[0].access & RLX_ACCESS_READ) ||
	    !(w->slice[1].access & RLX_ACCESS_WRITE))
		return RLX_EINVAL;
	st = bind(s, RLX_IO_INPUT, "x", &w->slice[0]);
	if (!st)
		st = bind(s, RLX_IO_OUTPUT, "y", &w->slice[1]);
	return st ? st : rlx_session_run(s);
}

static void serve(struct rlx_session *s)
{
	struct rlx_work *work[BATCH];
	int i, n;

	while ((n = rlx_service_fetch(service, 0, work, 1, BATCH,
				      RLX_NO_DEADLINE)) > 0) {
		for (i = 0; i < n; i++)
			work[i]->result = infer(s, work[i]);
		/* ESTALE would be a bug here: each was fetched just now. */
		(void)rlx_service_commit(service, work, (unsigned int)n);
	}
}

int main(int argc, char **argv)
{
	struct rlx_service_opts opts = { .size = sizeof(opts),
					 .address = argc > 1 ? argv[1] : NULL };
	struct rlx_error err = { 0 };
	struct rlx_service_stats st = { 0 };
	struct rlx_session *s = NULL;
	struct rlx_stats mem;
	struct rlx_program *p;

	p = build(&err);
	if (p && !rlx_session_new(p, NULL, &s, &err) &&
	    !rlx_service_new(&opts, &service, &err)) {
		signal(SIGTERM, on_signal);
		signal(SIGINT, on_signal);
		printf("listening at %s, transport %s\n", opts.address,
		       rlx_service_transport(service));
		fflush(stdout);
		serve(s);
		rlx_service_stats(service, &st);
	}
	if (err.status)
		fprintf(stderr, "%s: %s\n", rlx_status_name(err.status), err.text);
	rlx_stats_read(&mem);
	printf("%llu requests of %llu clients, %llu bytes copied\n",
	       (unsigned long long)st.committed,
	       (unsigned long long)st.clients_ever,
	       (unsigned long long)mem.bytes_copied);
	rlx_service_free(service);
	rlx_session_free(s);
	rlx_program_put(p);
	return err.status != RLX_OK;
}
