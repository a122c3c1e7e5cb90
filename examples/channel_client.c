// SPDX-License-Identifier: MIT
/*
 * A client of channel_service.c whose replies come through its own io_uring, where
 * its sockets, files and timers are too.
 *
 *	cc channel_client.c $(pkg-config --cflags --libs rlx) -luring -o client
 *	./client /tmp/model.sock 1000
 */
#include <liburing.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <rlx/serve.h>

enum { ROWS = 8, IN = 64, OUT = 16, SLOTS = 16, OP_INFER = 1 };

/* Each request in flight has its own input and output in one arena. */
struct slot {
	float x[ROWS * IN];
	float y[ROWS * OUT];
};

static enum rlx_status fill(struct rlx_channel *ch, struct rlx_arena *arena,
			    unsigned int i, struct rlx_request *req)
{
	struct slot *s = (struct slot *)rlx_arena_base(arena) + i;
	uint64_t at = i * sizeof(*s);
	struct rlx_buf in = { arena, at, sizeof(s->x) };
	struct rlx_buf out = { arena, at + sizeof(s->x), sizeof(s->y) };
	enum rlx_status st;
	int k;

	for (k = 0; k < ROWS * IN; k++)
		s->x[k] = (float)rand() / (float)RAND_MAX;
	*req = (struct rlx_request){ .opcode = OP_INFER, .user_data = i,
				     .nr_slices = 2 };
	st = rlx_channel_slice(ch, in, RLX_ACCESS_READ, &req->slice[0]);
	if (!st)
		st = rlx_channel_slice(ch, out, RLX_ACCESS_WRITE,
				       &req->slice[1]);
	return st;
}

/* The rows of a softmax add up to 1. */
static int wrong(struct rlx_arena *arena, const struct rlx_reply *r)
{
	const struct slot *s = (struct slot *)rlx_arena_base(arena) + r->user_data;
	int i, k;

	for (i = 0; i < ROWS; i++) {
		float sum = 0;

		for (k = 0; k < OUT; k++)
			sum += s->y[i * OUT + k];
		if (r->result || fabsf(sum - 1) > 1e-5f)
			return 1;
	}
	return 0;
}

/* Sleep in the ring until there are replies; other completions come here too. */
static int wait_in_ring(struct rlx_channel *ch, struct io_uring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;

	if (!sqe || rlx_channel_prep_wait(ch, sqe))
		return -1;
	if (rlx_channel_arm(ch))	/* meanwhile there are: do not sleep */
		io_uring_prep_nop(sqe);
	if (io_uring_submit(ring) < 0 || io_uring_wait_cqe(ring, &cqe))
		return -1;
	io_uring_cqe_seen(ring, cqe);
	return 0;
}

static int ask(struct rlx_channel *ch, struct rlx_arena *arena,
	       struct io_uring *ring, unsigned int total)
{
	unsigned int sent = 0, got = 0, bad = 0;
	struct rlx_reply reply[SLOTS];
	unsigned int idle[SLOTS], n_idle = 0;
	struct rlx_request req;
	int i, n;

	while (n_idle < SLOTS) {
		idle[n_idle] = n_idle;
		n_idle++;
	}
	while (got < total) {
		while (n_idle && sent < total) {
			if (fill(ch, arena, idle[n_idle - 1], &req) ||
			    rlx_channel_submit(ch, &req, 1, NULL) != 1)
				return -1;
			n_idle--;
			sent++;
		}
		n = rlx_channel_reap(ch, reply, SLOTS);
		if (n < 0 || (!n && wait_in_ring(ch, ring)))
			return -1;
		for (i = 0; i < n; i++) {
			bad += (unsigned int)wrong(arena, &reply[i]);
			idle[n_idle++] = (unsigned int)reply[i].user_data;
		}
		got += (unsigned int)n;
	}
	printf("%u replies, %u wrong\n", got, bad);
	return bad ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct rlx_channel_opts opts = { .size = sizeof(opts), .depth = SLOTS,
					 .address = argc > 1 ? argv[1] : NULL };
	struct rlx_arena_opts mem = { .size = SLOTS * sizeof(struct slot) };
	struct rlx_error err = { 0 };
	struct rlx_channel *ch = NULL;
	struct rlx_arena *arena = NULL;
	struct io_uring ring;
	uint32_t handle;
	int rc = 1;

	if (io_uring_queue_init(8, &ring, 0))
		return 1;
	if (!rlx_arena_new(&mem, &arena, &err) &&
	    !rlx_channel_open(&opts, &ch, &err) &&
	    !rlx_channel_attach(ch, arena, RLX_ACCESS_READ | RLX_ACCESS_WRITE,
				&handle, &err))
		rc = ask(ch, arena, &ring, argc > 2 ?
			 (unsigned int)atoi(argv[2]) : 1000);
	if (ch && rlx_channel_error(ch)->status)
		err = *rlx_channel_error(ch);
	if (err.status)
		fprintf(stderr, "%s: %s\n", rlx_status_name(err.status), err.text);
	rlx_channel_close(ch);
	rlx_arena_put(arena);
	io_uring_queue_exit(&ring);
	return rc != 0;
}
