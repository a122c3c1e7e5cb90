// SPDX-License-Identifier: MIT
/*
 * The executor's side of the kmod transport on a ring of the test's, where the kernel is
 * played by the answer to each ioctl.
 */
#include <stdarg.h>

#include <sys/ioctl.h>

static int fake_ioctl(int fd, unsigned long request, ...);
#define ioctl fake_ioctl
#include "libuser/serve/transport_kmod.c"
#undef ioctl
#include "selftests/lib/rlx_test.h"

enum { ENTRIES = 256, FLOOD = 100000 };

static struct {
	_Alignas(64) struct rlx_ring	head;
	uint32_t			tag[ENTRIES];
} ring;
static struct rlx_ring_user user;
static struct rlx_desc desc[ENTRIES];
static uint32_t answers;

/* Whoever was answered asks again at once. */
static int fake_ioctl(int fd, unsigned long request, ...)
{
	const struct rlx_ioc_commit *c;
	va_list ap;
	uint32_t i;

	va_start(ap, request);
	c = va_arg(ap, const struct rlx_ioc_commit *);
	va_end(ap);
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

TEST_MAIN()
