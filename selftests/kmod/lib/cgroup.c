// SPDX-License-Identifier: MIT
/* A control group of memory, in the root of those there are. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "selftests/lib/rlx_test.h"
#include "lib/arena.h"
#include "lib/cgroup.h"

#define ROOT	"/sys/fs/cgroup"
#define GROUP	ROOT "/rlx-test"
/* Charges are kept in stock for each processor. */
#define STOCK	(512ll << 10)

static char before[256];	/* where the process found itself */

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), n;

	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return n;
}

void k_cgroup_new(const char *max)
{
	put(ROOT "/cgroup.subtree_control", "+memory");
	if ((mkdir(GROUP, 0755) && errno != EEXIST) || put(GROUP "/memory.max", max))
		rlx_test_skip("no memory cgroup here");
}

void k_cgroup_enter(void)
{
	char line[200];

	k_file_read("/proc/self/cgroup", line, sizeof(line));
	line[strcspn(line, "\n")] = 0;
	snprintf(before, sizeof(before), ROOT "%s/cgroup.procs", line + strlen("0::"));
	CHECK_EQ(put(GROUP "/cgroup.procs", "0"), 0);
}

void k_cgroup_leave(void)
{
	CHECK_EQ(put(before, "0"), 0);
}

void k_cgroup_free(void)
{
	int i;

	for (i = 0; i < 3000 && rmdir(GROUP); i++)
		usleep(10000);
	CHECKF(i < 3000, "rmdir " GROUP ": %s", strerror(errno));
}

long long k_cgroup_kernel(void)
{
	return k_file_field(GROUP "/memory.stat", "kernel ");
}

long long k_cgroup_killed(void)
{
	return k_file_field(GROUP "/memory.events", "oom_kill ");
}

void k_cgroup_uncharged(long long bytes)
{
	for (int i = 0; i < 3000 && k_cgroup_kernel() - bytes > STOCK; i++)
		usleep(10000);
	CHECKF(k_cgroup_kernel() - bytes <= STOCK, "still charged: %lld",
	       k_cgroup_kernel() - bytes);
}
