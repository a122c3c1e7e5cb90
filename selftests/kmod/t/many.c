// SPDX-License-Identifier: MIT
/* A hundred thousand of each kind of object that nothing else caps. */
/* rig: kernels=6.12 own memory=3072 timeout=240 */
#include <fcntl.h>
#include <linux/rlx.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/abi.h"
#include "lib/arena.h"
#include "lib/chan.h"

#define MANY	100000
#define EACH	4000		/* arenas of one session, below its cap */
#define LIST	"/sys/kernel/debug/rlx/arenas"

static void want_descriptors(void)
{
	struct rlimit lim = { MANY + 1000, MANY + 1000 };

	CHECK(!setrlimit(RLIMIT_NOFILE, &lim));
}

static int *fds_new(void)
{
	int *fd = calloc(MANY, sizeof(*fd));

	CHECK(fd);
	return fd;
}

static void fds_close(int *fd)
{
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
	free(fd);
}

TEST(timelines)
{
	int s = k_open(), *fd = fds_new();

	want_descriptors();
	for (int i = 0; i < MANY; i++)
		fd[i] = k_timeline(s, i);
	CHECK_EQ(k_file_number(K_TOTALS "nr_timelines"), MANY);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(k_signal(fd[i], MANY), 0);
	fds_close(fd);
	close(s);
	CHECK(k_stat_becomes("nr_timelines", 0));
}

/* Lines of the list, without its head. */
static int listed(void)
{
	FILE *f = fopen(LIST, "r");
	char line[256];
	int n = -1;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	return n;
}

TEST(arenas)
{
	int s[MANY / EACH], *fd = fds_new();

	want_descriptors();
	for (int i = 0; i < MANY / EACH; i++)
		s[i] = k_open();
	for (int i = 0; i < MANY; i++)
		fd[i] = k_arena(s[i / EACH], 4096, 0);
	CHECK_EQ(k_file_number(K_TOTALS "nr_arenas"), MANY);
	CHECK_EQ(listed(), MANY);
	fds_close(fd);
	for (int i = 0; i < MANY / EACH; i++)
		close(s[i]);
	CHECK(k_stat_becomes("nr_arenas", 0));
	CHECK_EQ(listed(), 0);
}

/* Each is asked for what its devices have, by one call. */
TEST(exports)
{
	struct rlx_ioc_arena_sync sync = { .length = 4096, .access = RLX_R | RLX_W };
	int s = k_open(), arena = k_arena(s, 1 << 16, 0), *fd = fds_new();

	want_descriptors();
	for (int i = 0; i < MANY; i++) {
		fd[i] = k_export(arena, 4096 * (i % 16), 4096, RLX_R | RLX_W);
		CHECK(fd[i] >= 0);
	}
	CHECK_EQ(k_file_number(K_TOTALS "nr_dmabufs"), MANY);
	for (uint32_t op = RLX_SYNC_BEGIN; op <= RLX_SYNC_END; op++) {
		sync.op = op;
		CHECK_EQ(k_ioctl(arena, RLX_IOC_ARENA_SYNC, &sync), 0);
	}
	fds_close(fd);
	close(arena);
	close(s);
	CHECK(k_stat_becomes("nr_dmabufs", 0));
}

TEST_MAIN()
