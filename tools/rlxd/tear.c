// SPDX-License-Identifier: MIT
/* Notes where pages of mapped files went, and tells whose they were. */
#include <libgen.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/rlxd/tear.h"

enum { NOTED = 256 };

static atomic_uint users;		/* between begin and end */
static atomic_flag noting = ATOMIC_FLAG_INIT;	/* held by handlers alone: they do not fault */
static atomic_uint n_torn;
static _Atomic(uintptr_t) torn[NOTED];	/* addresses, the latest NOTED of them */

unsigned int tear_begin(void)
{
	atomic_fetch_add(&users, 1);
	return atomic_load(&n_torn);
}

bool tear_fault(uintptr_t at)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (!atomic_load(&users) ||
	    mmap((void *)(at & ~(page - 1)), page, PROT_READ | PROT_WRITE,
		 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		return false;
	while (atomic_flag_test_and_set(&noting))
		;
	atomic_store(&torn[atomic_load(&n_torn) % NOTED], at);
	atomic_fetch_add(&n_torn, 1);
	atomic_flag_clear(&noting);
	return true;
}

bool tear_end(unsigned int begin, const struct tear_range *r, unsigned int n)
{
	unsigned int end = atomic_load(&n_torn), i, k;
	bool ours = end != begin && (!n || end - begin > NOTED);

	atomic_fetch_sub(&users, 1);
	for (i = begin; !ours && i != end; i++)
		for (k = 0; k < n; k++)
			ours |= torn[i % NOTED] >= r[k].begin && torn[i % NOTED] < r[k].end;
	return ours;
}

unsigned int tear_ranges(const char *path, struct tear_range *out, unsigned int max)
{
	char dir[PATH_MAX], line[PATH_MAX + 128];
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long begin, end;
	unsigned int n = 0;
	struct stat sb;
	size_t len;
	int at;

	if (!realpath(path, dir))
		dir[0] = 0;
	else if (!stat(dir, &sb) && !S_ISDIR(sb.st_mode))
		dirname(dir);
	len = strlen(dir);
	while (maps && len && n < max && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &begin, &end, &at) == 2 &&
		    !strncmp(line + at, dir, len) && line[at + (int)len] == '/')
			out[n++] = (struct tear_range){ begin, end };
	if (maps)
		fclose(maps);
	return n;
}
