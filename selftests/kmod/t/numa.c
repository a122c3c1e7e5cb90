// SPDX-License-Identifier: MIT
/* Arenas on the node that was asked for, in a guest of two nodes. */
/* rig: kernels=6.12 own nodes=2 timeout=120 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"

#define MIB	(1ul << 20)

#define BIND	RLX_AF_NUMA_BIND
#define TURNS	RLX_AF_NUMA_INTERLEAVE

static long create_on(int s, uint64_t size, uint64_t nodes, uint32_t flags)
{
	struct rlx_ioc_arena_create c = {
		.size = size, .kind = RLX_KIND_KERNEL, .flags = flags,
		.numa_node = -1, .memfd = -1, .nodes = nodes,
	};

	return k_ioctl(s, RLX_IOC_ARENA_CREATE, &c);
}

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

/* Where the pages of an arena lie; they are all there. */
static void where(int a, uint64_t size, long on[2])
{
	volatile char *p;
	uint64_t i;

	p = k_map(a, size, PROT_READ, 0);
	for (i = 0; i < size; i += 4096)
		(void)p[i];
	count_pages((void *)p, on);
	CHECK_EQ(on[0] + on[1], size / 4096);
	CHECK(on[k_arena_info(a).numa_node]);
	munmap((void *)p, size);
}

static void place(uint64_t size, int node, uint32_t flags, long on[2])
{
	int s = k_open(), a = create(s, size, node, flags);

	CHECKF(a >= 0, "an arena on node %d: %d", node, a);
	where(a, size, on);
	if (node >= 0)
		CHECK_EQ(k_arena_info(a).numa_node, node);
	close(a);
	close(s);
}

/* The same of nodes by bit. */
static void place_on(uint64_t size, uint64_t nodes, uint32_t flags, long on[2])
{
	int s = k_open(), a = create_on(s, size, nodes, flags);

	CHECKF(a >= 0, "an arena on nodes %#llx: %d", (unsigned long long)nodes, a);
	where(a, size, on);
	close(a);
	close(s);
}

static uint64_t node_bytes(int node, const char *what)
{
	char path[64], line[128], key[64];
	uint64_t kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	snprintf(key, sizeof(key), "Node %d %s: %%lu", node, what);
	f = fopen(path, "r");
	CHECK(f);
	while (!kib && fgets(line, sizeof(line), f))
		if (sscanf(line, key, &kib) != 1)
			kib = 0;
	fclose(f);
	CHECK(kib);
	return kib << 10;
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
	long on[2];

	place((node_bytes(1, "MemTotal") / 8 * 9) & -(2 * MIB), 1, RLX_AF_HUGE_TRY, on);
	CHECK(on[0] && on[1] > on[0]);
}

TEST(bound_to_nodes)
{
	static const uint32_t flags[] = { 0, RLX_AF_HUGE_TRY, RLX_AF_HUGE_REQUIRE };
	int s = k_open(), node, i;
	uint64_t more;
	long on[2];

	for (node = 0; node < 2; node++) {
		/* Where another is the nearest, too. */
		for (i = 0; i < 6; i++) {
			place_on(32 * MIB, 1u << node, flags[i % 3] | BIND, on);
			CHECKF(!on[!node], "%ld pages of node %d, %ld of the other",
			       on[node], node, on[!node]);
		}
	}
	/* What it has not is not taken from the other. */
	more = (node_bytes(1, "MemTotal") / 16 * 17) & -(2 * MIB);
	CHECK_EQ(create_on(s, more, 2, BIND | RLX_AF_HUGE_TRY), -ENOMEM);
	close(s);
}

TEST(in_turn)
{
	static const uint32_t flags[] = { 0, RLX_AF_HUGE_TRY, RLX_AF_HUGE_REQUIRE };
	long on[2];
	int i;

	for (i = 0; i < 6; i++) {
		place_on(32 * MIB, 3, flags[i % 3] | TURNS | (i < 3 ? BIND : 0), on);
		CHECKF(on[0] == on[1], "%ld pages of node 0, %ld of node 1", on[0], on[1]);
	}
	place_on(32 * MIB, 2, TURNS, on);
	CHECK(!on[0]);
}

TEST(in_turn_and_then_from_others)
{
	long on[2];

	place_on((node_bytes(1, "MemTotal") / 16 * 17) & -(2 * MIB), 2,
		 TURNS | RLX_AF_HUGE_TRY, on);
	CHECK(on[0] && on[1] > on[0]);
}

/* As numactl --membind and --interleave have it. */
TEST(where_the_memory_policy_says)
{
	unsigned long mask;
	long on[2];

	for (int node = 0; node < 2; node++) {
		mask = 1ul << node;
		CHECK(!syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &mask, 8));
		place(32 * MIB, -1, RLX_AF_HUGE_TRY, on);
		CHECKF(!on[!node], "%ld pages of node %d, %ld of the other", on[node],
		       node, on[!node]);
	}
	mask = 3;
	CHECK(!syscall(SYS_set_mempolicy, 3 /* MPOL_INTERLEAVE */, &mask, 8));
	place(32 * MIB, -1, 0, on);
	CHECKF(on[0] > on[1] / 2 && on[1] > on[0] / 2,
	       "%ld pages of node 0, %ld of node 1", on[0], on[1]);
}

TEST(nodes_there_are_none_of)
{
	int s = k_open();

	CHECK_EQ(create_on(s, MIB, 0, BIND), -EINVAL);
	CHECK_EQ(create_on(s, MIB, 0, TURNS), -EINVAL);
	CHECK_EQ(create_on(s, MIB, 1, 0), -EINVAL);
	CHECK_EQ(create_on(s, MIB, 4, BIND), -EINVAL);
	CHECK_EQ(create_on(s, MIB, 1 | 1ull << 63, TURNS), -EINVAL);
	CHECK_EQ(create(s, MIB, 0, BIND), -EINVAL);

	CHECK_EQ(create(s, MIB, 2, 0), -EINVAL);
	CHECK_EQ(create(s, MIB, 1023, 0), -EINVAL);
	close(s);
}

TEST_MAIN()
