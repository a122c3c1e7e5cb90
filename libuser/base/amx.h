/* SPDX-License-Identifier: MIT */
/* Whether this process may use AMX tiles. */
#ifndef RLX_BASE_AMX_H
#define RLX_BASE_AMX_H

/*
 * NULL: the processor multiplies tiles of bf16 and bytes, and the kernel has let this
 * process use them, which the first call asks for (ARCH_REQ_XCOMP_PERM): from then on
 * an alternate signal stack must have room for a thread's tiles (getauxval(AT_MINSIGSTKSZ)).
 * Else static text: why not. Any thread.
 */
const char *rlx_amx_why(void);

#endif
