// SPDX-License-Identifier: MIT
/*
 * Both sides of the kmod transport on rings of the test's, where the kernel is played by the
 * answer to each ioctl.
 */
#include <stdarg.h>

#include <sys/ioctl.h>
#include <unistd.h>

static int fake_ioctl(int fd, unsigned long request, ...);
static int fake_access(const char *path, int mode);
#define ioctl fake_ioctl
#include "libuser/serve/transport_kmod.c"
#undef ioctl
#include "libuser/serve/recover.c"
#define access(path, mode)	fake_access(path, mode)
#include "libuser/serve/connect.c"
#undef access
#include "selftests/lib/serve_test.h"
#include "selftests/lib/rlx_test.h"

enum { ENTRIES = 256, FLOOD = 100000 };

static struct {
	_Alignas(64) struct rlx_ring	head;
	uint32_t			tag[ENTRIES];
} ring;
static struct rlx_ring_user user;
static struct rlx_desc desc[ENTRIES];
static uint32_t answers, submitted;

/* All are taken, if they are what this executor takes. */
static int take_submitted(const struct rlx_ioc_submit *s)
{
	const struct rlx_rq *rq = (const void *)(uintptr_t)s->entries;
	struct rlx_rq_id *id = (void *)(uintptr_t)s->ids;
	uint32_t i;

	for (i = 0; i < s->nr; i++) {
		CHECK(!(rq[i].flags & RLX_RQ_INDIRECT));
		id[i] = (struct rlx_rq_id){ .tag = submitted, .seq = submitted };
		submitted++;
	}
	return (int)s->nr;
}

/* Whoever was answered asks again at once. */
static int fake_ioctl(int fd, unsigned long request, ...)
{
	const struct rlx_ioc_commit *c;
	va_list ap;
	uint32_t i;

	va_start(ap, request);
	c = va_arg(ap, const struct rlx_ioc_commit *);
	va_end(ap);
	if (request == RLX_IOC_SUBMIT)
		return take_submitted((const void *)c);
	CHECK_EQ(request, RLX_IOC_COMMIT);
	for (i = 0; i < c->nr; i++) {
		const struct rlx_complete *one = (const void *)(uintptr_t)c->entries;

		CHECK_EQ(one[i].result, -EPIPE);
		if (answers++ < FLOOD)
			ring.tag[ring.head.tail++ & (ENTRIES - 1)] = one[i].tag;
	}
	return (int)c->nr;
}

/* A channel that was thrown out keeps asking: the others have their turn all the same. */
TEST(a_flood_of_what_nobody_wants)
{
	struct rlx_kmod_queue k = {
		.slots = ENTRIES, .desc = desc,
		.ring = { .ring = &ring.head, .user = &user, .mask = ENTRIES - 1,
			  .entry_bytes = sizeof(ring.tag[0]) },
	};
	struct rlx_queue q = { .kmod = &k };
	uint32_t i;

	for (i = 0; i < ENTRIES; i++)
		ring.tag[i] = desc[i].tag = i;
	ring.head.tail = ENTRIES;
	rlx_kmod_collect(&q);
	CHECKF(answers <= 2 * ENTRIES, "%u answers before anybody else had a turn", answers);
	CHECK(rlx_kmod_some(&q));	/* so it will be looked at again */
	for (i = 0; rlx_kmod_some(&q) && i < FLOOD; i++)
		rlx_kmod_collect(&q);
	CHECKF(answers == FLOOD + ENTRIES, "%u of %u answered", answers, FLOOD + ENTRIES);
}

/* A channel of four that has lost its executor, and found one that takes no lists. */
static void recovered(struct rlx_channel *ch, struct rlx_arena *a)
{
	static struct rlx_attached att[RLX_CHANNEL_ARENAS_MAX];
	static uint16_t chain[8], next[4], pending[4], over[4];
	static struct rlx_tag tag[4];
	static struct rlx_rq rq[4];
	static struct rlx_rq_id id[4];
	static uint32_t kernel_tag[4];
	static struct rlx_kmod_channel k = {
		.chain = chain, .next = next, .rq = rq, .id = id, .pending = pending,
		.kernel_tag = kernel_tag,
	};

	att[5] = (struct rlx_attached){ .handle = 9, .wire = 77, .arena = a,
					.size = rlx_arena_size(a) };
	memset(chain, 0xff, sizeof(chain));
	*ch = (struct rlx_channel){
		.ops = &rlx_channel_kmod, .state = RLX_CHANNEL_UP, .kmod = &k, .att = att,
		.opts = { .flags = RLX_CHANNEL_RECOVER_ALL }, .depth = 4, .tag = tag,
		.over = over, .arenas_max = 4, .slices_max = RLX_REQUEST_SLICES,
	};
}

TEST(a_list_that_the_next_executor_does_not_take)
{
	struct rlx_arena *a = client_arena(1 << 16);
	struct rlx_channel ch;
	uint32_t i;

	recovered(&ch, a);
	for (i = 0; i < 3; i++)
		ch.tag[i] = (struct rlx_tag){
			.state = RLX_TAG_KEPT, .order = i, .nr_att = 1, .att = { 5 },
			.req = { .nr_slices = 1, .slice[0] = { 9, RLX_ACCESS_READ, 0, 4096 } },
		};
	ch.tag[1].indirect = true;
	ch.tag[1].req.nr_slices = 7;
	ch.tag[1].req.flags = RLX_REQUEST_INDIRECT;
	send_again(&ch);
	CHECK_EQ(submitted, 2);
	CHECK_EQ(ch.tag[0].state, RLX_TAG_SENT);
	CHECK_EQ(ch.tag[2].state, RLX_TAG_SENT);
	CHECK_EQ(ch.kmod->rq[0].slice[0].arena, 77);	/* beyond what the service grants */
	CHECK_EQ(ch.tag[1].state, RLX_TAG_OVER);
	CHECK_EQ(ch.tag[1].result, -EOPNOTSUPP);
	CHECK_EQ(ch.tag[1].flags, RLX_REPLY_UNDELIVERED);
	rlx_arena_put(a);
}

static const char *missing;	/* a path; all others are there */

static int fake_access(const char *path, int mode)
{
	return missing && !strncmp(path, missing, strlen(missing)) ? -1 : 0;
}

/* Without /proc no descriptor is known for the module's: who does not name kmod has shm. */
TEST(kmod_is_chosen_where_it_can_be)
{
	static const char *const away[] = { NULL, "/dev/rlx", "/proc" };
	struct rlx_channel ch;
	size_t i;

	for (i = 0; i < 3; i++) {
		ch = (struct rlx_channel){ 0 };
		missing = away[i];
		CHECK_EQ(rlx_channel_choose(&ch, NULL), RLX_OK);
		CHECK_EQ(ch.transports, RLX_WIRE_SHM | (i ? 0 : RLX_WIRE_KMOD));
		ch = (struct rlx_channel){ .opts = { .transport = "kmod" } };
		CHECK_EQ(rlx_channel_choose(&ch, NULL), RLX_OK);
		CHECK_EQ(ch.transports, RLX_WIRE_KMOD);
	}
}

TEST_MAIN()
