// SPDX-License-Identifier: MIT
/* Arenas on the node that was asked for, in a guest of two nodes. */
/* rig: kernels=6.12 own nodes=2 timeout=60 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"

#define MIB	(1ul << 20)

static long create(int s, uint64_t size, int node, uint32_t flags)
{
	struct rlx_ioc_arena_create c = {
		.size = size, .kind = RLX_KIND_KERNEL, .flags = flags,
		.numa_node = node, .memfd = -1,
	};

	return k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
}

/* How many pages of the mapping at @p lie on each node. */
static void count_pages(const void *p, long on[2])
{
	FILE *f = fopen("/proc/self/numa_maps", "r");
	unsigned long at;
	char line[512];
	int i;

	CHECK(f);
	on[0] = on[1] = 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx ", &at) != 1 || at != (unsigned long)p)
			continue;
		for (i = 0; i < 2; i++) {
			char key[8], *n;

			snprintf(key, sizeof(key), " N%d=", i);
			n = strstr(line, key);
			on[i] = n ? atol(n + strlen(key)) : 0;
		}
	}
	fclose(f);
}

/* Where the pages of a new arena lie; they are all there. */
static void place(uint64_t size, int node, uint32_t flags, long on[2])
{
	int s = k_open(), a = create(s, size, node, flags);
	volatile char *p;
	uint64_t i;

	CHECKF(a >= 0, "an arena on node %d: %d", node, a);
	p = k_map(a, size, PROT_READ, 0);
	for (i = 0; i < size; i += 4096)
		(void)p[i];
	count_pages((void *)p, on);
	CHECK_EQ(on[0] + on[1], size / 4096);
	CHECK(on[k_arena_info(a).numa_node]);
	if (node >= 0)
		CHECK_EQ(k_arena_info(a).numa_node, node);
	munmap((void *)p, size);
	close(a);
	close(s);
}

TEST(on_the_node_that_is_asked_for)
{
	static const uint32_t flags[] = { 0, RLX_AF_HUGE_TRY, RLX_AF_HUGE_REQUIRE };
	long on[2];
	int node, i;

	for (node = 0; node < 2; node++) {
		for (i = 0; i < 3; i++) {
			place(32 * MIB, node, flags[i], on);
			CHECKF(!on[!node], "%ld pages of node %d, %ld of the other",
			       on[node], node, on[!node]);
		}
	}
}

TEST(by_default_where_the_caller_runs)
{
	unsigned int cpu, node, seen = 0;
	long on[2];

	for (cpu = 0; cpu < 2; cpu++) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		CHECK(!sched_setaffinity(0, sizeof(set), &set));
		CHECK(!getcpu(NULL, &node));
		seen |= 1u << node;
		place(32 * MIB, -1, 0, on);
		CHECKF(!on[!node], "%ld pages of node %u, %ld of the other",
		       on[node], node, on[!node]);
	}
	CHECK_EQ(seen, 3);
}

/* More than a node has comes from both, from that one first. */
TEST(more_than_a_node_has)
{
	FILE *f = fopen("/sys/devices/system/node/node1/meminfo", "r");
	uint64_t kib;
	long on[2];

	CHECK(f && fscanf(f, "Node 1 MemTotal: %lu", &kib) == 1);
	fclose(f);
	place(((kib << 10) / 8 * 9) & -(2 * MIB), 1, RLX_AF_HUGE_TRY, on);
	CHECK(on[0] && on[1] > on[0]);
}

TEST(nodes_there_are_none_of)
{
	int s = k_open();

	CHECK_EQ(create(s, MIB, 2, 0), -EINVAL);
	CHECK_EQ(create(s, MIB, 1023, 0), -EINVAL);
	close(s);
}

TEST_MAIN()
