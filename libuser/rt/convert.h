/* SPDX-License-Identifier: MIT */
/* Whole tensors that a caller gives or takes in another dtype. */
#ifndef RLX_RT_CONVERT_H
#define RLX_RT_CONVERT_H

#include "rlx/type.h"

/*
 * May @given stand for @have: the same shape, and a dtype that is the same or of the same
 * family? RLX_ESHAPE, RLX_ETYPE, with "@what '@name'" in the message.
 */
enum rlx_status rlx_may_convert(const struct rlx_type *have, const struct rlx_type *given,
				const char *what, const char *name, struct rlx_error *err);
/* Of types that rlx_may_convert() lets through; counted as copied. */
void rlx_convert(struct rlx_type to, void *dst, struct rlx_type from, const void *src);
/* The same; what is there already is not written. Was something else there? */
bool rlx_convert_if_other(struct rlx_type to, void *dst, struct rlx_type from, const void *src);

#endif
