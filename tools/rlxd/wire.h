/* SPDX-License-Identifier: MIT */
/* KServe's datatypes, and tensors out of and into JSON. */
#ifndef RLXD_WIRE_H
#define RLXD_WIRE_H

#include "base/json.h"
#include "rlx/type.h"
#include "tools/rlxd/obuf.h"

/* "FP32" for RLX_F32; NULL if KServe has no word for it. */
const char *wire_name(enum rlx_dtype dt);
enum rlx_dtype wire_dtype(const char *name);

/*
 * The numbers of a JSON array, nested in any way, as elements of @type at @to.
 * False: @why says which one is none, is out of range, or that the count is wrong.
 */
bool wire_from_json(const struct rlx_json *j, uint32_t node, const struct rlx_type *type,
		    void *to, char why[160]);
/* [1,2,3] */
void wire_shape(struct obuf *o, const int64_t *dim, unsigned int rank);
/* A flat JSON array. False: the dtype has no form in JSON (floats of 16 bits). */
bool wire_to_json(struct obuf *o, const struct rlx_type *type, const void *data);

#endif
