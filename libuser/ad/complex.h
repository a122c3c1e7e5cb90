/* SPDX-License-Identifier: MIT */
/* The gradient rule, for complex numbers, of ops that treat their parts alike. */
#ifndef RLX_AD_COMPLEX_H
#define RLX_AD_COMPLEX_H

#include "ir/opdef.h"

/* What .vjp is for RLX_COMPLEX_VJP_PARTS: sets q->d_in of complex inputs. */
enum rlx_status rlx_ad_complex_parts(struct rlx_grad *q);

#endif
