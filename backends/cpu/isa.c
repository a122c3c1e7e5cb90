// SPDX-License-Identifier: MIT
/* Which kernels this CPU can run; RLX_ISA takes a lower level. */
#include <stdatomic.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/kernels.h"
#include "base/amx.h"
#include "base/env.h"
#include "rlx/log.h"

static const char *const names[RLX_ISA_COUNT] = {
	"base", "v3", "v4", "v4_vnni", "v4x", "v4_amx",
};

const char *cpu_isa_name(enum rlx_isa isa)
{
	return (unsigned int)isa < RLX_ISA_COUNT ? names[isa] : "?";
}

static enum rlx_isa best(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
	    !__builtin_cpu_supports("bmi2"))
		return RLX_ISA_BASE;
	if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
	    !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
	    !__builtin_cpu_supports("avx512vl"))
		return RLX_ISA_V3;
	if (!__builtin_cpu_supports("avx512vnni"))
		return RLX_ISA_V4;
	if (!__builtin_cpu_supports("avx512bf16"))
		return RLX_ISA_V4_VNNI;
	return RLX_ISA_V4X;
#else
	return RLX_ISA_BASE;
#endif
}

/*
 * Tiles, and vectors of pairs where one takes as long as one multiply-add of f32: Intel's
 * VDPBF16PS takes twice as long (110 for 220 GFLOP/s on a core that has tiles as well).
 */
bool cpu_pairs_gain(enum rlx_isa isa)
{
#if defined(__x86_64__)
	return isa >= RLX_ISA_V4_AMX || (isa == RLX_ISA_V4X && !__builtin_cpu_is("intel"));
#else
	(void)isa;
	return false;
#endif
}

/* A slow path tells its user, once. */
static void tell_missing(const char *why)
{
	static atomic_bool told;

	if (!atomic_exchange(&told, true))
		rlx_log(RLX_LOG_WARN, "cpu: the kernels for AVX-512 cannot be had, those of v3 "
			"run, which may take twice as long: %s", why);
}

/* The best level up to the one that is wanted: the processor's, if its kernels are there. */
static enum rlx_isa with_kernels(enum rlx_isa isa)
{
	const char *why;

	if (cpu_has_kernels(isa, &why))
		return isa;
	tell_missing(why);
	return RLX_ISA_V3;
}

enum rlx_isa cpu_isa_detect(void)
{
	static atomic_bool told;
	int want = rlx_env_word("RLX_ISA", names, RLX_ISA_COUNT, &told);
	enum rlx_isa have = best();

	/* The kernel is not asked for tiles that are not wanted. */
	if (want >= 0 && want <= (int)have)
		return with_kernels((enum rlx_isa)want);
	return with_kernels(have == RLX_ISA_V4X && !rlx_amx_why() ? RLX_ISA_V4_AMX : have);
}
