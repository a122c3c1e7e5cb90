/* SPDX-License-Identifier: MIT */
/* Which ISA levels this machine runs, and memory that faults when overrun. */
#ifndef RLX_TEST_ISA_H
#define RLX_TEST_ISA_H

#include <sys/mman.h>
#include <unistd.h>

#include "base/amx.h"
#include "kernels/kernel.h"
#include "selftests/lib/rlx_test.h"

static inline bool isa_runs(enum rlx_isa isa)
{
#if defined(__x86_64__)
	bool v3 = __builtin_cpu_supports("avx2") &&
		  __builtin_cpu_supports("fma");
	bool v4 = v3 && __builtin_cpu_supports("avx512f") &&
		  __builtin_cpu_supports("avx512bw") &&
		  __builtin_cpu_supports("avx512cd") &&
		  __builtin_cpu_supports("avx512dq") &&
		  __builtin_cpu_supports("avx512vl");

	switch (isa) {
	case RLX_ISA_BASE:
		return true;
	case RLX_ISA_V3:
		return v3;
	case RLX_ISA_V4:
		return v4;
	case RLX_ISA_V4_VNNI:
		return v4 && __builtin_cpu_supports("avx512vnni");
	case RLX_ISA_V4X:
		return isa_runs(RLX_ISA_V4_VNNI) && __builtin_cpu_supports("avx512bf16");
	case RLX_ISA_V4_AMX:
		return isa_runs(RLX_ISA_V4X) && !rlx_amx_why();
	default:
		return false;
	}
#else
	return isa == RLX_ISA_BASE;
#endif
}

static inline const char *isa_name(enum rlx_isa isa)
{
	static const char *const names[] = { "base", "v3", "v4", "v4_vnni", "v4x", "v4_amx" };

	return names[isa];
}

/*
 * @size bytes that end where a page without access begins, so that reading or
 * writing past the end is a crash; @align moves them back to a boundary. Filled
 * with 0xa5. All of them go with fence_reset().
 */
struct fence {
	void	*map;
	size_t	len;
};

static struct fence fences[256];
static size_t nfences;

static inline void *fence_alloc(size_t size, size_t align)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t len = (size + align + page - 1) / page * page;
	char *p = mmap(NULL, len + page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED && nfences < 256);
	CHECK(!mprotect(p + len, page, PROT_NONE));
	fences[nfences++] = (struct fence){ p, len + page };
	memset(p, 0xa5, len);
	return p + (len - size) / align * align;
}

static inline void fence_reset(void)
{
	while (nfences) {
		nfences--;
		munmap(fences[nfences].map, fences[nfences].len);
	}
}

#endif
