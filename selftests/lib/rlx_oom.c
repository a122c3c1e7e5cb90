// SPDX-License-Identifier: MIT
/* The sweep of rlx_oom.h. */
#include <dirent.h>

#include "base/alloc.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

/* A sequence that never ends would run the machine hot: this many must do. */
enum { FAULTS_MAX = 1000000 };

struct held {
	int64_t		blocks;
	unsigned int	fds, maps;
};

unsigned int rlx_oom_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

unsigned int rlx_oom_memfd_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		n += !!strstr(line, "/memfd:");
	if (f)
		fclose(f);
	return n;
}

static struct held held(void)
{
	return (struct held){
		rlx_alloc_live(), rlx_oom_fds(), rlx_oom_memfd_maps(),
	};
}

static void check_held(const struct held *was, uint64_t n)
{
	struct held is = held();

	CHECKF(is.blocks == was->blocks, "fault %llu: %lld heap blocks more",
	       (unsigned long long)n, (long long)(is.blocks - was->blocks));
	CHECKF(is.fds == was->fds, "fault %llu: %u descriptors, %u before",
	       (unsigned long long)n, is.fds, was->fds);
	CHECKF(is.maps == was->maps, "fault %llu: %u memfd mappings, %u before",
	       (unsigned long long)n, is.maps, was->maps);
}

uint64_t rlx_oom_sweep(rlx_oom_fn fn, void *ctx)
{
	struct held was = held();
	enum rlx_status st;
	uint64_t n, before;
	bool met;

	for (n = 1; n < FAULTS_MAX; n++) {
		before = rlx_alloc_count();
		rlx_alloc_fail_nth(n);
		st = fn(ctx);
		rlx_alloc_fail_nth(0);
		met = rlx_alloc_count() - before >= n;
		check_held(&was, n);
		if (!met)
			break;
		CHECKF(!st || st == RLX_ENOMEM, "fault %llu: %s",
		       (unsigned long long)n, rlx_status_name(st));
	}
	CHECKF(n < FAULTS_MAX, "no end after %d faults", FAULTS_MAX);
	CHECKF(!st, "without a fault: %s", rlx_status_name(st));
	return n - 1;
}
