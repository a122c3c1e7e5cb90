// SPDX-License-Identifier: MIT
/* Nodes of memory as a folder describes them: which there are, and threads on them. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "tools/rlxd/node.h"

static char dir[64];

static void describe(unsigned int node, const char *cpus)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/node%u", dir, node);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/node%u/cpulist", dir, node);
	f = fopen(path, "w");
	CHECK(f && fputs(cpus, f) >= 0 && !fclose(f));
}

static void make_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/rlxd-node-XXXXXX");
	CHECK(mkdtemp(dir));
}

static void remove_dir(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -r '%s'", dir);
	CHECK(!system(cmd));
}

/* Exactly processor @cpu, or @all. */
static bool runs_on(int cpu, const cpu_set_t *all)
{
	cpu_set_t now;

	return !sched_getaffinity(0, sizeof(now), &now) &&
	       (all ? CPU_EQUAL(&now, all) : CPU_COUNT(&now) == 1 && CPU_ISSET(cpu, &now));
}

static void *child_main(void *ctx)
{
	return (void *)(uintptr_t)(runs_on(*(int *)ctx, NULL) && node_here() == NODE_ANY);
}

TEST(one_node_is_none)
{
	static const char *const lists[] = { "0-4095\n", "\n", "x", "7-3\n", "-1", "4000-9999\n" };
	cpu_set_t all;
	unsigned int i;

	make_dir();
	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	node_setup("/nonexistent");
	CHECK_EQ(node_count(), 1);
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		describe(3, lists[i]);
		node_setup(dir);
		CHECK_EQ(node_count(), 1);
		CHECK_EQ(node_mask(), 0);
		node_enter(0);
		CHECK_EQ(node_here(), 0);
		CHECK(runs_on(0, &all));
		node_enter(NODE_ANY);
		CHECK(runs_on(0, &all));
	}
	remove_dir();
}

TEST(threads_move_between_nodes)
{
	cpu_set_t all;
	char text[64];
	int cpu[2], n = 0, i;
	pthread_t t;
	void *ok;

	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	for (i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &all))
			cpu[n++] = i;
	if (n < 2)
		rlx_test_skip("one processor");
	make_dir();
	/* Others' processors, none at all, and two nodes of ours. */
	describe(0, "1020-1023\n");
	describe(1, "\n");
	for (i = 0; i < 2; i++) {
		snprintf(text, sizeof(text), "%d,1022-1023\n", cpu[i]);
		describe(2 + 3 * (unsigned int)i, text);
	}
	node_setup(dir);
	CHECK_EQ(node_count(), 2);
	CHECK_EQ(node_mask(), 1 << 2 | 1 << 5);
	CHECK_EQ(node_here(), NODE_ANY);
	for (i = 1; i >= 0; i--) {
		node_enter(i);
		CHECK_EQ(node_here(), i);
		CHECK(runs_on(cpu[i], NULL));
		CHECK(!pthread_create(&t, NULL, child_main, &cpu[i]));
		CHECK(!pthread_join(t, &ok));
		CHECK(ok);
	}
	node_enter(NODE_ANY);
	CHECK(runs_on(0, &all));
	remove_dir();
}

TEST_MAIN()
