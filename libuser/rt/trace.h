/* SPDX-License-Identifier: MIT */
/*
 * RLX_TRACE: what ran when, for the viewers of Chrome and Perfetto, or as NVTX ranges
 * for NVIDIA's profilers. Read once; without it a run costs one test more.
 */
#ifndef RLX_RT_TRACE_H
#define RLX_RT_TRACE_H

#include "rt/session.h"

bool rlx_trace_on(void);
/* The backend's run of @s, written down. */
enum rlx_status rlx_trace_run(struct rlx_session *s);
/* That @p was compiled, from @from to now, by rlx_now(). */
void rlx_trace_compile(const struct rlx_program *p, uint64_t from);

#endif
