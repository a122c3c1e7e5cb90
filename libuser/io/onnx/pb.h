/* SPDX-License-Identifier: MIT */
/*
 * A bounded protobuf reader driven by tables: one row per field says where the
 * value goes in a plain struct. Strings and sub-messages stay slices of the
 * input; everything else is copied into one allocator.
 */
#ifndef RLX_IO_ONNX_PB_H
#define RLX_IO_ONNX_PB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/str.h"
#include "rlx/status.h"

enum pb_wire {
	PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5,
};

enum pb_kind {
	PB_I64,		/* int64_t, from varint (int32, enum and bool too) */
	PB_F32,		/* float */
	PB_STR,		/* struct rlx_str */
	PB_MSG,		/* repeated: array of structs; single: pointer */
};

struct pb_msg;

struct pb_field {
	const char		*name;
	const struct pb_msg	*sub;	/* PB_MSG */
	uint32_t		 num;
	uint8_t			 kind;
	bool			 rep;
	uint16_t		 off;	/* of the value, or of the array */
	uint16_t		 off_n;	/* repeated: of the size_t count */
};

struct onnx_pb;

/*
 * Every target struct begins with `uint64_t has`, whose bit n says that field
 * number n was present.
 */
struct pb_msg {
	const char		*name;
	const struct pb_field	*field;
	uint32_t		 nfield;
	uint32_t		 size;
	/* Optional; @body is the message's own bytes. */
	enum rlx_status		(*finish)(struct onnx_pb *pb, void *msg,
					  struct rlx_str body);
};

#define PB_MAX_FIELDS	20
#define PB_MAX_DEPTH	100	/* messages within messages, as protobuf's own */

struct onnx_pb {
	const uint8_t		*base;	/* for byte offsets in errors */
	const char		*file;	/* for errors */
	struct rlx_bump	*arena;
	struct rlx_error	*err;
	void			*user;	/* for finish() */
};

/* One field as it stands in the input. */
struct pb_item {
	uint32_t	 num;
	uint8_t		 wire;
	uint64_t	 v;	/* varint or fixed value, or length of bytes */
	const uint8_t	*tag;	/* where the field begins */
	const uint8_t	*p;	/* PB_BYTES: the payload */
};

/* Read a varint at *@p. False: malformed or past @end. */
bool pb_varint(const uint8_t **p, const uint8_t *end, uint64_t *out);

/*
 * Read the field at *@p (which is before @end) and step over it. On failure
 * the error names @m and the byte.
 */
enum rlx_status pb_next(struct onnx_pb *pb, const struct pb_msg *m,
			const uint8_t **p, const uint8_t *end,
			struct pb_item *it);

/* Fill @out (zeroed, m->size bytes) from @body. */
enum rlx_status pb_parse(struct onnx_pb *pb, const struct pb_msg *m,
			 struct rlx_str body, void *out, unsigned int depth);

enum rlx_status __rlx_printf(5, 6)
pb_fail(struct onnx_pb *pb, const struct pb_msg *m, const char *field,
	const void *at, const char *fmt, ...);
enum rlx_status pb_nomem(struct onnx_pb *pb);

#endif
