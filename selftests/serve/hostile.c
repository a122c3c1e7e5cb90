// SPDX-License-Identifier: MIT
/*
 * Peers that write rubbish: into every word of the shared memory, into messages,
 * as descriptors. The others must be served as if nothing were. Only for the shm
 * transport: with the module there is no memory that a peer may write.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/serve_test.h"
#include "serve/sock.h"

#define RW (RLX_ACCESS_READ | RLX_ACCESS_WRITE)

/* A client by hand. */
struct raw {
	int			 sock, bell;
	uint32_t		 depth;
	struct rlx_shm_client	*a;
	const struct rlx_shm_service *b;
	uint64_t		 pos;
};

static bool raw_recv(int sock, struct rlx_wire_msg *m, int *fds,
		     unsigned int max, unsigned int *nr)
{
	uint64_t until = SOON;
	int rc;

	while (!(rc = rlx_sock_recv(sock, m, fds, max, nr)) &&
	       rlx_deadline_in(0) < until)
		usleep(100);
	return rc == 1;
}

static void raw_open(struct raw *r, const char *address, uint32_t depth)
{
	struct rlx_wire_msg m = { .type = RLX_WIRE_HELLO, .depth = depth,
				  .transports = RLX_WIRE_SHM };
	int fds[RLX_WIRE_FDS];
	unsigned int nr;

	CHECK_EQ(rlx_sock_connect(address, &r->sock, NULL), RLX_OK);
	CHECK(rlx_sock_send(r->sock, &m, NULL, 0));
	CHECK(raw_recv(r->sock, &m, fds, RLX_WIRE_FDS, &nr));
	CHECK_EQ(m.type, RLX_WIRE_WELCOME);
	CHECK_EQ(nr, RLX_WIRE_FDS);
	r->depth = m.depth;
	r->pos = 0;
	r->a = mmap(NULL, rlx_shm_client_bytes(depth), PROT_READ | PROT_WRITE,
		    MAP_SHARED, fds[RLX_FD_CLIENT], 0);
	r->b = mmap(NULL, rlx_shm_service_bytes(depth), PROT_READ, MAP_SHARED,
		    fds[RLX_FD_SERVICE], 0);
	CHECK(r->a != MAP_FAILED && r->b != MAP_FAILED);
	r->bell = fds[RLX_FD_BELL];
	close(fds[RLX_FD_CLIENT]);
	close(fds[RLX_FD_SERVICE]);
	close(fds[RLX_FD_QUEUE]);
}

static void raw_close(struct raw *r)
{
	munmap(r->a, rlx_shm_client_bytes(r->depth));
	munmap((void *)r->b, rlx_shm_service_bytes(r->depth));
	close(r->bell);
	close(r->sock);
}

/* The reply to an attach of @fd; -1: thrown out. */
static int raw_attach(struct raw *r, uint32_t handle, uint32_t access,
		      const int *fds, unsigned int n)
{
	struct rlx_wire_msg m = { .type = RLX_WIRE_ATTACH, .serial = 7,
				  .handle = handle, .access = access };
	unsigned int nr;

	rlx_sock_send(r->sock, &m, fds, n);
	if (!raw_recv(r->sock, &m, NULL, 0, &nr) || m.type != RLX_WIRE_DONE)
		return 1;
	CHECK_EQ(m.serial, 7);
	return m.status;
}

static void raw_bell(struct raw *r)
{
	rlx_bell_ring(r->bell);
}

static void write_words(_Atomic uint64_t *w, const uint64_t *v, unsigned int n)
{
	while (n--)
		rlx_shm_set(&w[n], v[n]);
}

/* Publish a descriptor of the given words 1.., and wait for its reply. */
static int32_t raw_ask(struct raw *r, const uint64_t *words)
{
	struct rlx_shm_desc *d = &r->a->desc[r->pos & (r->depth - 1)];
	const struct rlx_shm_reply *rep = &r->b->reply[r->pos & (r->depth - 1)];
	uint64_t until = SOON;

	write_words(d->w + 1, words + 1, RLX_DW_WORDS - 1);
	atomic_store_explicit(&d->w[0], rlx_shm_seq(r->pos, RLX_SHM_QUEUED),
			      memory_order_release);
	raw_bell(r);
	while (atomic_load_explicit(&rep->w[0], memory_order_acquire) !=
	       r->pos + 1) {
		CHECK(rlx_deadline_in(0) < until);
		usleep(50);
	}
	CHECK_EQ(rlx_shm_get(&rep->w[RLX_RW_TAG]), words[RLX_DW_TAG]);
	r->pos++;
	return (int32_t)(uint32_t)rlx_shm_get(&rep->w[RLX_RW_RESULT]);
}

static bool thrown_out(struct raw *r, const char *why)
{
	struct rlx_wire_msg m;
	unsigned int nr;

	if (!raw_recv(r->sock, &m, NULL, 0, &nr) || m.type != RLX_WIRE_BYE)
		return false;
	CHECK_EQ(m.status, RLX_EPROTO);
	CHECKF(strstr(m.text, why), "\"%s\" lacks \"%s\"", m.text, why);
	return true;
}

/* A well-behaved client in a thread, whose replies are checked. */
struct good {
	const char	*address;
	_Atomic bool	 stop;
	uint64_t	 calls;
	pthread_t	 thread;
};

static void *good_main(void *arg)
{
	struct good *g = arg;
	struct rlx_arena *a = client_arena(4096);
	struct rlx_channel *ch = client_open(g->address,
					     (struct rlx_channel_opts){ 0 });
	struct rlx_request r = { .opcode = OP_SUM, .nr_slices = 1 };
	uint8_t *p = rlx_arena_base(a);
	uint64_t seed = rlx_test_seed(), i, n, want;

	r.slice[0].arena = client_attach(ch, a, RW);
	r.slice[0].access = RW;
	while (!atomic_load(&g->stop)) {
		n = 1 + rlx_test_rand(&seed) % 200;
		for (i = 0, want = 0; i < n; i++)
			want += p[100 + i] = (uint8_t)rlx_test_rand(&seed);
		r.slice[0].offset = 100;
		r.slice[0].length = n;
		CHECK_EQ(client_call(ch, r).aux, want);
		g->calls++;
	}
	rlx_channel_close(ch);
	rlx_arena_put(a);
	return NULL;
}

static void good_start(struct good *g, const char *address)
{
	memset(g, 0, sizeof(*g));
	g->address = address;
	CHECK(!pthread_create(&g->thread, NULL, good_main, g));
}

static void good_stop(struct good *g)
{
	atomic_store(&g->stop, true);
	pthread_join(g->thread, NULL);
	CHECK(g->calls > 0);
}

static void only_shm(void)
{
	if (strcmp(serve_transport(), "shm"))
		rlx_test_skip("there is no memory a peer may write");
}

TEST(requests_no_library_would_send)
{
	struct rlx_arena *a = client_arena(4096);
	uint64_t w[RLX_DW_WORDS], ok[RLX_DW_WORDS] = { 0 };
	uint32_t h = 5 << 9 | 1;
	struct rlx_service_stats st;
	struct server s;
	struct raw r;
	int fd;

	only_shm();
	server_start(&s, (struct rlx_service_opts){ .slices_max = 64 }, 1);
	raw_open(&r, s.address, 8);
	fd = rlx_arena_fd(a);
	CHECK_EQ(raw_attach(&r, h, RLX_ACCESS_READ, &fd, 1), 0);
	ok[RLX_DW_TAG] = rlx_shm_pair(3, 9);
	ok[RLX_DW_OP] = rlx_shm_pair(OP_SUM, 0);
	ok[RLX_DW_COUNT] = rlx_shm_pair(1, 0);
	ok[RLX_DW_SLICE] = rlx_shm_pair(h, RLX_ACCESS_READ);
	ok[RLX_DW_SLICE + 2] = 4096;
	CHECK_EQ(raw_ask(&r, ok), 0);
#define ASK(word, value, want)				\
	do {						\
		memcpy(w, ok, sizeof(w));		\
		w[word] = value;			\
		CHECK_EQ(raw_ask(&r, w), want);		\
	} while (0)
	ASK(RLX_DW_OP, rlx_shm_pair(1u << 31, 0), -EINVAL);
	ASK(RLX_DW_OP, rlx_shm_pair(OP_SUM, 0x8000), -EINVAL);
	ASK(RLX_DW_COUNT, rlx_shm_pair(7, 0), -EINVAL);
	ASK(RLX_DW_COUNT, rlx_shm_pair(UINT32_MAX, 0), -EINVAL);
	ASK(RLX_DW_COUNT, rlx_shm_pair(1, 65), -EINVAL);
	ASK(RLX_DW_COUNT, rlx_shm_pair(1, UINT32_MAX), -EINVAL);
	ASK(RLX_DW_COUNT, rlx_shm_pair(6, 0), -ENOENT);
	ASK(RLX_DW_SLICE, rlx_shm_pair(h, 0), -EINVAL);
	ASK(RLX_DW_SLICE, rlx_shm_pair(h, 8), -EINVAL);
	ASK(RLX_DW_SLICE, rlx_shm_pair(h, RW), -EACCES);
	ASK(RLX_DW_SLICE, rlx_shm_pair(h + 1, 1), -ENOENT);
	ASK(RLX_DW_SLICE, rlx_shm_pair(h + 512, 1), -ENOENT);
	ASK(RLX_DW_SLICE, rlx_shm_pair(0, 1), -ENOENT);
	ASK(RLX_DW_SLICE, rlx_shm_pair(511, 1), -ENOENT);
	ASK(RLX_DW_SLICE + 1, 1, -ERANGE);
	ASK(RLX_DW_SLICE + 1, UINT64_MAX, -ERANGE);
	ASK(RLX_DW_SLICE + 1, UINT64_MAX - 4095, -ERANGE);
	ASK(RLX_DW_SLICE + 2, 0, -EINVAL);
	ASK(RLX_DW_SLICE + 2, 4097, -ERANGE);
	ASK(RLX_DW_SLICE + 2, UINT64_MAX, -ERANGE);
	/* A list of slices: out of range, of nothing, too long, rubbish. */
	ok[RLX_DW_OP] = rlx_shm_pair(OP_SUM, RLX_REQUEST_INDIRECT);
	ASK(RLX_DW_COUNT, rlx_shm_pair(64, 0), -ENOENT);
	ASK(RLX_DW_COUNT, rlx_shm_pair(65, 0), -EINVAL);
	ASK(RLX_DW_COUNT, rlx_shm_pair(0, 0), -EINVAL);
	ASK(RLX_DW_SLICE + 2, 23, -ERANGE);
	ASK(RLX_DW_SLICE + 1, 4095, -ERANGE);
#undef ASK
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.cut, 0);
	CHECK_EQ(st.rejected, 25);
	/* A tag out of range is no request of any client. */
	ok[RLX_DW_TAG] = rlx_shm_pair(8, 9);
	write_words(r.a->desc[r.pos & 7].w + 1, ok + 1, RLX_DW_WORDS - 1);
	atomic_store(&r.a->desc[r.pos & 7].w[0],
		     rlx_shm_seq(r.pos, RLX_SHM_QUEUED));
	raw_bell(&r);
	CHECK(thrown_out(&r, "tag 8 of 8"));
	raw_close(&r);
	server_drained(&s);
	server_stop(&s);
	rlx_arena_put(a);
}

TEST(claims_no_library_would_write)
{
	static const uint64_t words[] = {
		1, 2, 3, 4, 6, 7, 8, 9, UINT64_MAX, 1ull << 63, 5 + 4 * 8,
	};
	struct rlx_service_stats st;
	struct server s;
	struct good g;
	unsigned int i, n = sizeof(words) / sizeof(words[0]), cut = 0;

	only_shm();
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	good_start(&g, s.address);
	for (i = 0; i < n; i++) {
		struct raw r;

		raw_open(&r, s.address, 8);
		atomic_store(&r.a->desc[0].w[0], words[i]);
		raw_bell(&r);
		if (words[i] == rlx_shm_seq(0, RLX_SHM_WITHDRAWN)) {
			usleep(10000);	/* that one is fine */
		} else {
			CHECK(thrown_out(&r, "no client writes"));
			cut++;
		}
		raw_close(&r);
	}
	good_stop(&g);
	server_drained(&s);
	rlx_service_stats(s.svc, &st);
	CHECK_EQ(st.cut, cut);
	server_stop(&s);
}

/*
 * Random words anywhere in what the client may write, at any time. Most leave
 * the claims alone, or publish what stands there, or it would all end at once.
 */
static void scribble(struct raw *r, uint64_t *seed, unsigned int writes)
{
	uint64_t words = rlx_shm_client_bytes(r->depth) / 8;
	_Atomic uint64_t *base = (_Atomic uint64_t *)r->a;

	while (writes--) {
		uint64_t x = rlx_test_rand(seed), v = rlx_test_rand(seed);
		uint64_t at = x % words, head = rlx_shm_get(&r->b->head);
		bool claim = at >= 32 && at % 32 == 0;

		switch (x >> 58 & 7) {
		case 0:
		case 1:
		case 2:
			at = 32 + 32 * (head % r->depth);
			v = rlx_shm_seq(head, RLX_SHM_QUEUED + (v % 16 == 0));
			break;
		case 3:
			v = rlx_shm_get(&base[at]) ^ 1ull << v % 64;
			break;
		case 4:
			v %= 8;
			break;
		}
		if (claim && x >> 48 & 31)
			continue;
		atomic_store_explicit(&base[at], v, memory_order_release);
		if (x >> 55 & 1)
			raw_bell(r);
		if ((x >> 40 & 63) == 0)
			usleep(1);
	}
}

TEST(rubbish_in_every_shared_word)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_arena *a = client_arena(1 << 16);
	struct rlx_service_stats st;
	struct server s;
	struct good g;
	unsigned int i;
	int fd = rlx_arena_fd(a);

	only_shm();
	server_start(&s, (struct rlx_service_opts){ .slices_max = 64,
						    .queues = 1 }, 2);
	atomic_store(&s.tame, true);
	good_start(&g, s.address);
	for (i = 0; i < 400; i++) {
		struct raw r;
		uint32_t k;

		raw_open(&r, s.address, 1u << i % 6);
		raw_attach(&r, 1, RW, &fd, 1);
		/* Rubbish in the list of an indirect request too. */
		for (k = 0; k < 1 << 13; k++)
			((uint64_t *)rlx_arena_base(a))[k] =
				rlx_test_rand(&seed) % 5 ? k % 7 :
				rlx_test_rand(&seed);
		for (k = 0; k < r.depth; k++)	/* plausible to begin with */
			for (unsigned int j = 1; j < RLX_DW_WORDS; j++)
				rlx_shm_set(&r.a->desc[k].w[j],
					    j == RLX_DW_OP ?
					    rlx_shm_pair(OP_SUM, rlx_test_rand(&seed) & 1) :
					    rlx_test_rand(&seed) % 3);
		scribble(&r, &seed, 2000);
		raw_close(&r);
	}
	good_stop(&g);
	server_drained(&s);
	rlx_service_stats(s.svc, &st);
	printf("# %llu calls meanwhile; %llu cut, %llu rejected, %llu fetched\n",
	       (unsigned long long)g.calls, (unsigned long long)st.cut,
	       (unsigned long long)st.rejected, (unsigned long long)st.fetched);
	CHECK(st.cut > 10 && st.rejected > 10);
	server_stop(&s);
	rlx_arena_put(a);
}

static void not_memory(struct server *s, struct raw *r, int fd, int want)
{
	int rc = raw_attach(r, 1, RW, &fd, 1);

	CHECKF(rc == want, "fd %d: %d, not %d", fd, rc, want);
	close(fd);
	(void)s;
}

TEST(descriptors_that_are_no_memory)
{
	struct rlx_arena *a = client_arena(4096);
	int fd = rlx_arena_fd(a), two[2] = { fd, fd }, p[2], ro;
	struct server s;
	struct raw r;

	only_shm();
	server_start(&s, (struct rlx_service_opts){ 0 }, 1);
	raw_open(&r, s.address, 8);
	CHECK(!pipe(p));
	not_memory(&s, &r, p[0], RLX_EACCES);
	not_memory(&s, &r, p[1], RLX_EACCES);
	not_memory(&s, &r, open("/dev/null", O_RDWR), RLX_EACCES);
	not_memory(&s, &r, open("/dev/zero", O_RDWR), RLX_EACCES);
	not_memory(&s, &r, open("/", O_RDONLY | O_DIRECTORY), RLX_EACCES);
	not_memory(&s, &r, open("/", O_PATH), RLX_EACCES);
	not_memory(&s, &r, open("/proc/self/mem", O_RDWR), RLX_EACCES);
	not_memory(&s, &r, eventfd(0, 0), RLX_EACCES);
	/* A memfd that may shrink, is empty, is read-only. */
	ro = memfd_create("x", MFD_ALLOW_SEALING);
	CHECK(!ftruncate(ro, 4096));
	not_memory(&s, &r, ro, RLX_EACCES);
	ro = memfd_create("x", MFD_ALLOW_SEALING);
	CHECK(!fcntl(ro, F_ADD_SEALS, F_SEAL_SHRINK));
	not_memory(&s, &r, ro, RLX_EACCES);
	CHECK_EQ(rlx_arena_dup_readonly(a, &ro, NULL), RLX_OK);
	not_memory(&s, &r, ro, RLX_EACCES);
	/* Sparse and large: it takes no memory of the service. */
	ro = memfd_create("x", MFD_ALLOW_SEALING);
	CHECK(!ftruncate(ro, 1ll << 40));
	CHECK(!fcntl(ro, F_ADD_SEALS, F_SEAL_SHRINK));
	not_memory(&s, &r, ro, RLX_ERANGE);
	/* Handles. */
	CHECK_EQ(raw_attach(&r, 0, RW, &fd, 1), RLX_EINVAL);
	CHECK_EQ(raw_attach(&r, 17, RW, &fd, 1), RLX_EINVAL);
	CHECK_EQ(raw_attach(&r, 511, RW, &fd, 1), RLX_EINVAL);
	CHECK_EQ(raw_attach(&r, 1, 4, &fd, 1), RLX_EINVAL);
	CHECK_EQ(raw_attach(&r, 1, RW, &fd, 1), 0);
	CHECK_EQ(raw_attach(&r, 512 + 1, RW, &fd, 1), RLX_EINVAL);
	/* Without one, or with more than there is room for: the rest is lost. */
	CHECK_EQ(raw_attach(&r, 2, RW, two, 2), 0);
	CHECK_EQ(raw_attach(&r, 3, RW, NULL, 0), 1);
	raw_close(&r);
	server_drained(&s);
	server_stop(&s);
	rlx_arena_put(a);
}

TEST(rubbish_in_messages)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_arena *a = client_arena(4096);
	struct rlx_service_stats st;
	struct server s;
	struct good g;
	int i, fd = rlx_arena_fd(a);

	only_shm();
	server_start(&s, (struct rlx_service_opts){
		     .flags = RLX_SERVICE_EVENTS }, 1);
	good_start(&g, s.address);
	for (i = 0; i < 1500; i++) {
		struct rlx_wire_msg m = { .depth = 8, .handle = 1,
					  .transports = RLX_WIRE_SHM,
					  .access = RW };
		unsigned int k, n = (unsigned int)(rlx_test_rand(&seed) % 6);
		size_t bytes = sizeof(m);
		int sock;

		if (rlx_sock_connect(s.address, &sock, NULL)) {
			usleep(1000);	/* its backlog is full */
			continue;
		}
		m.type = RLX_WIRE_HELLO;
		if (rlx_test_rand(&seed) % 4)
			rlx_sock_send(sock, &m, NULL, 0);
		for (k = 0; k < n; k++) {
			uint64_t x = rlx_test_rand(&seed);

			m.type = (uint16_t)(1 + x % 6);
			m.magic = RLX_WIRE_MAGIC;
			m.version = RLX_WIRE_VERSION;
			m.text[RLX_WIRE_TEXT - 1] = 0;
			if (x >> 60 < 4)
				((uint32_t *)&m)[x % 48] = (uint32_t)(x >> 32);
			if (x >> 57 & 1) {
				rlx_sock_send(sock, &m, &fd, x >> 56 & 1);
				continue;
			}
			if (x >> 55 & 1)
				bytes = x % (sizeof(m) + 2);
			if (bytes > sizeof(m))
				bytes = sizeof(m);
			if (send(sock, &m, bytes, MSG_NOSIGNAL) < 0)
				break;
		}
		close(sock);
	}
	good_stop(&g);
	server_drained(&s);
	CHECK_EQ(s.order_errors, 0);
	CHECK_EQ(s.events[RLX_WORK_OPEN], s.events[RLX_WORK_GONE]);
	rlx_service_stats(s.svc, &st);
	CHECK(st.cut + st.refused > 10);
	server_stop(&s);
	rlx_arena_put(a);
}

/* Connects and says nothing: thrown out, and its place is free again. */
TEST(silent_clients)
{
	struct rlx_service_stats st;
	struct server s;
	int sock[4], i;

	only_shm();
	server_start(&s, (struct rlx_service_opts){ .clients_max = 4 }, 1);
	for (i = 0; i < 4; i++)
		CHECK_EQ(rlx_sock_connect(s.address, &sock[i], NULL), RLX_OK);
	for (i = 0; i < 200; i++) {
		usleep(100000);
		rlx_service_stats(s.svc, &st);
		if (st.refused == 4)
			break;
	}
	CHECK_EQ(st.refused, 4);
	rlx_channel_close(client_open(s.address, (struct rlx_channel_opts){ 0 }));
	for (i = 0; i < 4; i++)
		close(sock[i]);
	server_drained(&s);
	server_stop(&s);
}

/* ---- services that write rubbish --------------------------------------- */

struct fake {
	int	 listener;
	uint64_t seed;
	uint32_t depth;
};

static int memory(uint64_t bytes, bool seal)
{
	int fd = memfd_create("fake", MFD_ALLOW_SEALING);

	CHECK(!ftruncate(fd, (off_t)bytes));
	if (seal)
		CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

/* A service that lets one in, and scribbles over what it shares with it. */
static void fake_serve(struct fake *f, bool good_welcome)
{
	struct rlx_wire_msg m = { .type = RLX_WIRE_WELCOME, .depth = f->depth,
				  .queue = 1, .transports = RLX_WIRE_SHM,
				  .arenas_max = 16, .slices_max = 6 };
	int bell[2], fds[RLX_WIRE_FDS], c = accept(f->listener, NULL, NULL);
	uint64_t bytes = rlx_shm_service_bytes(f->depth), x;
	struct rlx_wire_msg hello;
	_Atomic uint64_t *b;
	unsigned int nr, i;

	CHECK(raw_recv(c, &hello, NULL, 0, &nr));
	m.serial = hello.serial;
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, bell));
	fds[RLX_FD_CLIENT] = memory(rlx_shm_client_bytes(f->depth), true);
	fds[RLX_FD_SERVICE] = memory(bytes, true);
	fds[RLX_FD_QUEUE] = memory(4096, true);
	fds[RLX_FD_BELL] = bell[1];
	nr = RLX_WIRE_FDS;
	x = rlx_test_rand(&f->seed);
	if (!good_welcome) {
		switch (x % 6) {
		case 0:		/* too small */
			fds[x / 6 % 3] = memory(1, true);
			break;
		case 1:		/* may shrink */
			fds[x / 6 % 3] = memory(1 << 20, false);
			break;
		case 2:
			fds[x / 6 % 3] = bell[0];
			break;
		case 3:
			nr = (unsigned int)(x / 6 % 4);
			break;
		default:
			((uint32_t *)&m)[1 + x / 6 % 14] =
				(uint32_t)rlx_test_rand(&f->seed);
		}
	}
	rlx_sock_send(c, &m, fds, nr);
	b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		 fds[RLX_FD_SERVICE], 0);
	for (i = 0; good_welcome && b != MAP_FAILED && i < 3000; i++) {
		uint64_t n, at;

		x = rlx_test_rand(&f->seed);
		n = x / 64 % 4;
		at = 32 + 4 * (n % f->depth);	/* reply[n] */
		rlx_shm_set(&b[at + 1], x >> 60 ? rlx_shm_pair(
			    (uint32_t)(x >> 40) % (f->depth + 1), x >> 50 & 1) :
			    rlx_test_rand(&f->seed));
		rlx_shm_set(&b[at + 2], rlx_test_rand(&f->seed));
		rlx_shm_set(&b[0], x >> 58 ? n : x);
		atomic_store_explicit(&b[at], n + 1, memory_order_release);
		if (x % 8 == 0)
			rlx_bell_ring(bell[0]);
	}
	if (x >> 63) {
		m.type = RLX_WIRE_BYE;
		m.status = (int32_t)rlx_test_rand(&f->seed);
		rlx_sock_send(c, &m, NULL, 0);
	}
	_exit(0);
}

TEST(a_service_that_writes_rubbish)
{
	struct fake f = { .seed = rlx_test_seed(), .depth = 4 };
	struct rlx_channel_opts o = { .size = sizeof(o), .depth = 4,
				      .timeout_ns = 2000000000 };
	unsigned int i, ends[3] = { 0 };
	char address[64];

	only_shm();
	for (i = 0; i < 200; i++) {
		struct rlx_request r = { .opcode = OP_NOP };
		struct rlx_error err = { 0 };
		struct rlx_reply reply[4];
		struct rlx_channel *ch;
		struct server none;
		int st, n, open = 0, k;
		pid_t pid;

		(void)none;
		serve_address(address, sizeof(address));
		CHECK_EQ(rlx_sock_listen(address, 0, &f.listener, &n, NULL), 0);
		fcntl(f.listener, F_SETFL, 0);
		rlx_test_rand(&f.seed);
		pid = fork();
		if (!pid)
			fake_serve(&f, i % 2);
		close(f.listener);
		o.address = address;
		st = rlx_channel_open(&o, &ch, &err);
		CHECKF(!st || err.text[0], "%d", st);
		if (st) {
			ends[0]++;
			waitpid(pid, NULL, 0);
			continue;
		}
		for (k = 0; k < 200; k++) {
			n = rlx_channel_submit(ch, &r, 1, NULL);
			open += n == 1;
			if (n != 1 && n != RLX_EAGAIN)
				break;
			n = rlx_channel_wait(ch, reply, 1, 4, in_ms(200));
			if (n > 0)
				open -= n;
			CHECK(open >= 0);
			if (n < 0)
				break;
		}
		/* In the end all that was asked is answered, with a reason. */
		while (open > 0) {
			n = rlx_channel_wait(ch, reply, 1, 4, SOON);
			CHECKF(n > 0, "%d with %d open", n, open);
			open -= n;
		}
		n = rlx_channel_wait(ch, reply, 0, 4, 0);
		CHECKF(n <= 0, "%d", n);
		ends[n == RLX_EPROTO ? 1 : 2]++;
		rlx_channel_close(ch);
		waitpid(pid, NULL, 0);
	}
	printf("# %u not opened, %u broken, %u ended otherwise\n", ends[0],
	       ends[1], ends[2]);
	CHECK(ends[0] && ends[1]);
}

/*
 * A descriptor that is no channel of the module: the client does not touch what it could
 * have been mapped from, which ends where the service likes.
 */
TEST(a_channel_of_the_module_that_is_none)
{
	struct rlx_wire_msg m = { .type = RLX_WIRE_WELCOME, .depth = 4, .queue = 1,
				  .transports = RLX_WIRE_KMOD, .arenas_max = 16,
				  .slices_max = 6 };
	struct rlx_channel_opts o = { .size = sizeof(o), .depth = 4, .transport = "kmod",
				      .timeout_ns = 2000000000 };
	struct rlx_wire_msg hello;
	struct rlx_channel *ch;
	struct rlx_error err = { 0 };
	int listener, n, c, fd;
	char address[64];
	unsigned int nr;
	pid_t pid;

	serve_address(address, sizeof(address));
	CHECK_EQ(rlx_sock_listen(address, 0, &listener, &n, NULL), 0);
	fcntl(listener, F_SETFL, 0);
	pid = fork();
	if (!pid) {
		c = accept(listener, NULL, NULL);
		CHECK(raw_recv(c, &hello, NULL, 0, &nr));
		m.serial = hello.serial;
		fd = memory(4096, false);
		rlx_sock_send(c, &m, &fd, 1);
		raw_recv(c, &hello, NULL, 0, &nr);
		_exit(0);
	}
	close(listener);
	o.address = address;
	CHECK_EQ(rlx_channel_open(&o, &ch, &err), RLX_EPROTO);
	CHECKF(strstr(err.text, "no channel of"), "%s", err.text);
	waitpid(pid, NULL, 0);
}

TEST_MAIN()
