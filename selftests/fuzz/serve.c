// SPDX-License-Identifier: MIT
/*
 * Fuzzes what a service reads from clients: the messages of the set-up, the
 * descriptors that come with them, and the memory a client writes. The input is
 * a list of steps of a few clients, done one after the other in one thread.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 3, STEPS = 64, DEPTH = 4 };

struct peer {
	int			 sock, bell;
	struct rlx_shm_client	*a;
	uint64_t		 bytes;
};

struct input {
	const uint8_t	*p;
	size_t		 left;
};

static struct rlx_service *svc;
static struct rlx_arena *arena;
static char address[64];

static uint64_t take(struct input *in, size_t n)
{
	uint64_t v = 0;

	while (n-- && in->left) {
		v = v << 8 | *in->p++;
		in->left--;
	}
	return v;
}

static void check(bool ok)
{
	if (!ok)
		__builtin_trap();
}

static void step(void)
{
	rlx_control_step(svc, 0);
}

/* What the service sent; a WELCOME's memory is mapped. */
static void listen_to(struct peer *p)
{
	struct rlx_wire_msg m;
	int fds[RLX_WIRE_FDS];
	unsigned int nr;

	while (p->sock >= 0 && rlx_sock_recv(p->sock, &m, fds, RLX_WIRE_FDS,
					     &nr) == 1) {
		if (m.type == RLX_WIRE_WELCOME && nr == RLX_WIRE_FDS && !p->a) {
			p->bytes = rlx_shm_client_bytes(m.depth);
			p->a = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE,
				    MAP_SHARED, fds[RLX_FD_CLIENT], 0);
			check(p->a != MAP_FAILED);
			p->bell = fds[RLX_FD_BELL];
			fds[RLX_FD_BELL] = dup(p->bell);
		}
		while (nr)
			close(fds[--nr]);
	}
}

static void leave(struct peer *p)
{
	if (p->sock >= 0)
		close(p->sock);
	if (p->bell >= 0)
		close(p->bell);
	if (p->a)
		munmap(p->a, p->bytes);
	*p = (struct peer){ .sock = -1, .bell = -1 };
	step();
}

static void say(struct peer *p, struct input *in)
{
	struct rlx_wire_msg m = { .magic = RLX_WIRE_MAGIC,
				  .version = RLX_WIRE_VERSION,
				  .transports = RLX_WIRE_SHM, .depth = DEPTH };
	unsigned int fds = (unsigned int)take(in, 1), i;
	int fd[2] = { rlx_arena_fd(arena), p->sock };

	m.type = (uint16_t)(take(in, 1) % 8);
	m.handle = (uint32_t)take(in, 2);
	m.access = (uint32_t)take(in, 1);
	for (i = fds >> 4; i; i--)	/* anything else in it */
		((uint8_t *)&m)[take(in, 1) % 64] = (uint8_t)take(in, 1);
	rlx_sock_send(p->sock, &m, fd, fds % 3);
}

static void scribble(struct peer *p, struct input *in)
{
	_Atomic uint64_t *w = (_Atomic uint64_t *)p->a;
	uint64_t at = take(in, 2) % (p->bytes / 8);
	unsigned int n = (unsigned int)take(in, 1) % 8, size;

	size = 1 + (unsigned int)take(in, 1) % 8;
	while (n-- && at < p->bytes / 8)
		atomic_store(&w[at++], take(in, size));
}

/* A request that has a good chance. */
static void ask(struct peer *p, struct input *in)
{
	uint64_t pos = take(in, 1), i;
	struct rlx_shm_desc *d = &p->a->desc[pos % DEPTH];

	for (i = 1; i < RLX_DW_INLINE; i++)
		rlx_shm_set(&d->w[i], rlx_shm_pair((uint32_t)take(in, 1),
						   (uint32_t)take(in, 1) % 4));
	atomic_store(&d->w[0], rlx_shm_seq(pos, 1 + take(in, 1) % 3));
}

/* Look at each slice that came out: it must be ours to read. */
static void serve(struct rlx_work **held, unsigned int *nr_held, bool hold)
{
	struct rlx_work *w[8];
	uint64_t sum = 0;
	uint32_t k;
	int i, n = rlx_service_fetch(svc, 0, w, 0, 8, 0);

	check(n >= 0);
	for (i = 0; i < n; i++) {
		check(w[i]->nr_slices <= RLX_REQUEST_SLICES_MAX &&
		      w[i]->inline_len <= RLX_REQUEST_INLINE);
		for (k = 0; k < w[i]->nr_slices; k++) {
			const struct rlx_work_slice *s = &w[i]->slice[k];
			const volatile uint8_t *b = s->ptr;

			check(s->length && s->arena);
			sum += b[0] + b[s->length - 1];
		}
		w[i]->aux = sum;
		(void)rlx_work_cancelled(w[i]);
		if (hold && *nr_held < 16)
			held[(*nr_held)++] = w[i];
		else
			check(!rlx_service_commit(svc, &w[i], 1));
	}
}

static void start(void)
{
	struct rlx_service_opts o = { .size = sizeof(o), .address = address,
				      .transport = "shm", .slices_max = 64,
				      .depth_max = DEPTH, .clients_max = 8,
				      .flags = RLX_SERVICE_EVENTS,
				      .client_bytes = 1 << 20 };
	struct rlx_arena_opts ao = { .size = 8192, .flags = RLX_ARENA_NOLOCK,
				     .pages = RLX_PAGES_SMALL };

	snprintf(address, sizeof(address), "@rlx-fuzz-%d", (int)getpid());
	check(!rlx_service_make(&o, &svc, NULL));
	check(!rlx_arena_new(&ao, &arena, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct peer peer[CLIENTS];
	struct rlx_service_stats st;
	struct rlx_work *held[16];
	unsigned int nr_held = 0, i;

	if (!svc)
		start();
	for (i = 0; i < CLIENTS; i++)
		peer[i] = (struct peer){ .sock = -1, .bell = -1 };
	for (i = 0; i < STEPS && in.left; i++) {
		uint64_t op = take(&in, 1);
		struct peer *p = &peer[op / 16 % CLIENTS];

		if (p->sock < 0) {
			check(!rlx_sock_connect(address, &p->sock, NULL));
			step();
		}
		switch (op % 16) {
		case 0: case 1: case 2: case 3:
			say(p, &in);
			break;
		case 4:
			send(p->sock, in.p, in.left < 250 ? in.left : 250,
			     MSG_NOSIGNAL | MSG_DONTWAIT);
			break;
		case 5: case 6: case 7:
			if (p->a)
				scribble(p, &in);
			break;
		case 8: case 9:
			if (p->a)
				ask(p, &in);
			break;
		case 10:
			leave(p);
			break;
		case 11:
			check(!rlx_service_commit(svc, held, nr_held));
			nr_held = 0;
			break;
		default:
			serve(held, &nr_held, op & 64);
		}
		step();
		listen_to(p);
	}
	for (i = 0; i < CLIENTS; i++)
		leave(&peer[i]);
	check(!rlx_service_commit(svc, held, nr_held));
	for (i = 0; i < 64; i++) {	/* the last events */
		nr_held = 0;
		serve(held, &nr_held, false);
		step();
		rlx_service_stats(svc, &st);
		if (!st.clients)
			break;
	}
	check(!st.clients && !st.under_way && !st.arena_bytes);
	return 0;
}
