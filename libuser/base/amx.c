// SPDX-License-Identifier: MIT
/* AMX tiles: what the processor has and the kernel permits. */
#include <errno.h>
#include <stddef.h>

#include "base/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* asm/prctl.h of Linux 5.16 has these names */
enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };

static const char *refused(int error)
{
	switch (error) {
	case EINVAL:
		return "arch_prctl(ARCH_REQ_XCOMP_PERM) is unknown: Linux 5.16 or newer is needed";
	case EOPNOTSUPP:
		return "this kernel has AMX switched off";
	case ENOSPC:
		return "a thread's alternate signal stack has no room for tiles: "
		       "make it getauxval(AT_MINSIGSTKSZ) larger";
	default:
		return "arch_prctl(ARCH_REQ_XCOMP_PERM) is refused (a seccomp filter?)";
	}
}

const char *rlx_amx_why(void)
{
	const unsigned int need = 1u << 22 | 1u << 24 | 1u << 25;	/* bf16, tile, int8 */
	unsigned int a, b, c, d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & need) != need)
		return "the processor has none";
	return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) ? refused(errno) : NULL;
}
#else
const char *rlx_amx_why(void)
{
	return "the processor has none";
}
#endif
