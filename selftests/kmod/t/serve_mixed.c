// SPDX-License-Identifier: MIT
/* One service with both transports; arenas of either kind over either. */
/* rig: timeout=120 */
#include "selftests/lib/serve_test.c"

#define RW (RLX_ACCESS_READ | RLX_ACCESS_WRITE)

static struct rlx_arena *arena_of(const char *provider)
{
	struct rlx_arena_opts o = { .size = 8192, .provider = provider,
				    .pages = RLX_PAGES_SMALL };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	return a;
}

static struct rlx_channel *open_by(const char *address, const char *transport,
				   uint32_t flags, const char *want)
{
	struct rlx_channel_opts o = { .size = sizeof(o), .address = address,
				      .transport = transport, .flags = flags };
	struct rlx_channel_info info;
	struct rlx_error err = { 0 };
	struct rlx_channel *ch;

	CHECKF(!rlx_channel_open(&o, &ch, &err), "%s", err.text);
	rlx_channel_info(ch, &info);
	CHECK_STR(info.transport, want);
	return ch;
}

static void start(struct server *s)
{
	struct rlx_service_opts o = { .size = sizeof(o), .address = s->address };
	struct rlx_error err = { 0 };

	memset(s, 0, sizeof(*s));
	serve_address(s->address, sizeof(s->address));
	CHECKF(!rlx_service_new(&o, &s->svc, &err), "%s", err.text);
	CHECK_STR(rlx_service_transport(s->svc), "kmod");
}

/* Fetch one, add 1 to each byte of its slice, commit. */
static void serve_next(struct rlx_service *svc)
{
	struct rlx_work *w;
	uint64_t i;

	CHECK_EQ(rlx_service_fetch(svc, 0, &w, 1, 1, SOON), 1);
	CHECK_EQ(w->nr_slices, 1);
	for (i = 0; i < w->slice[0].length; i++)
		((uint8_t *)w->slice[0].ptr)[i]++;
	CHECK_EQ(rlx_service_commit(svc, &w, 1), RLX_OK);
}

/* The same bytes at both ends, whatever carries the request. */
static void exchange(struct server *s, struct rlx_channel *ch,
		     struct rlx_arena *a)
{
	struct rlx_request r = { .nr_slices = 1 };
	uint8_t *p = rlx_arena_base(a);
	struct rlx_reply reply;
	uint32_t h = client_attach(ch, a, RW);

	memset(p, 41, 8192);
	r.slice[0] = (struct rlx_request_slice){ h, RW, 100, 8000 };
	CHECK_EQ(rlx_channel_submit(ch, &r, 1, NULL), 1);
	serve_next(s->svc);
	CHECK_EQ(rlx_channel_wait(ch, &reply, 1, 1, SOON), 1);
	CHECK_EQ(reply.result, 0);
	CHECK(p[99] == 41 && p[100] == 42 && p[8099] == 42 && p[8100] == 41);
	CHECK_EQ(rlx_channel_detach(ch, h, NULL), RLX_OK);
}

TEST(arenas_of_both_kinds_over_both_transports)
{
	struct rlx_arena *mem = arena_of("memfd"), *mod = arena_of("kmod");
	struct rlx_channel *shm, *kmod;
	struct rlx_error err = { 0 };
	struct server s;
	uint32_t h;

	start(&s);
	shm = open_by(s.address, "shm", 0, "shm");
	kmod = open_by(s.address, "kmod", 0, "kmod");
	exchange(&s, shm, mem);
	exchange(&s, shm, mod);
	exchange(&s, kmod, mod);
	switch (rlx_channel_attach(kmod, mem, RW, &h, &err)) {
	case RLX_OK:
		CHECK_EQ(rlx_channel_detach(kmod, h, NULL), RLX_OK);
		exchange(&s, kmod, mem);
		break;
	case RLX_ENOSUP:	/* memfd_pin_folios() came with 6.11 */
		CHECKF(strstr(err.text, "provider \"kmod\""), "%s", err.text);
		printf("# no memfd on this kernel\n");
		break;
	default:
		CHECKF(false, "%s", err.text);
	}
	rlx_channel_close(shm);
	rlx_channel_close(kmod);
	server_drained(&s);
	rlx_service_free(s.svc);
	rlx_arena_put(mem);
	rlx_arena_put(mod);
}

TEST(who_gets_which_transport)
{
	struct server s;

	start(&s);
	rlx_channel_close(open_by(s.address, NULL, 0, "kmod"));
	rlx_channel_close(open_by(s.address, NULL, RLX_CHANNEL_RECOVER, "shm"));
	rlx_channel_close(open_by(s.address, "kmod", RLX_CHANNEL_RECOVER, "kmod"));
	rlx_service_free(s.svc);
}

/* Neither kind of client keeps the other out. */
TEST(turns_between_the_transports)
{
	struct rlx_request r[32] = { { 0 } };
	struct rlx_channel *shm, *kmod;
	struct rlx_work *w[32];
	uint64_t first;
	struct server s;
	int i, n, of_first = 0;

	start(&s);
	shm = open_by(s.address, "shm", 0, "shm");
	kmod = open_by(s.address, "kmod", 0, "kmod");
	CHECK_EQ(rlx_channel_submit(shm, r, 32, NULL), 32);
	CHECK_EQ(rlx_channel_submit(kmod, r, 32, NULL), 32);
	n = rlx_service_fetch(s.svc, 0, w, 32, 32, SOON);
	CHECK_EQ(n, 32);
	first = w[0]->peer->id;
	for (i = 0; i < n; i++)
		of_first += w[i]->peer->id == first;
	CHECK_EQ(of_first, 16);
	CHECK_EQ(rlx_service_commit(s.svc, w, 32), RLX_OK);
	n = rlx_service_fetch(s.svc, 0, w, 32, 32, SOON);
	CHECK_EQ(n, 32);
	CHECK_EQ(rlx_service_commit(s.svc, w, 32), RLX_OK);
	rlx_channel_close(shm);
	rlx_channel_close(kmod);
	server_drained(&s);
	rlx_service_free(s.svc);
}

TEST_MAIN()
