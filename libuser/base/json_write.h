/* SPDX-License-Identifier: MIT */
/* A small writer of JSON. */
#ifndef RLX_BASE_JSON_WRITE_H
#define RLX_BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { RLX_JSON_DEPTH_MAX = 256 };

/*
 * Writer: one value, pretty or on one line. Calls that do not fit (a value in
 * an object without its key, an end without a begin) and failures of the
 * stream stick and show at rlx_json_writer_end(). NaN and infinities become
 * null; bytes that are not UTF-8 become U+FFFD. Does not allocate.
 */
struct rlx_json_writer {
	FILE		*f;
	bool		 pretty, bad, key_pending, done;
	uint32_t	 depth;
	uint8_t		 kind[RLX_JSON_DEPTH_MAX];	/* '[' or '{' */
	bool		 some[RLX_JSON_DEPTH_MAX];	/* an item was written */
};

void rlx_json_writer_begin(struct rlx_json_writer *w, FILE *f, bool pretty);
/* True if one whole value was written and the stream took all of it. */
bool rlx_json_writer_end(struct rlx_json_writer *w);
void rlx_json_put_begin(struct rlx_json_writer *w, char kind);	/* '[' '{' */
void rlx_json_put_end(struct rlx_json_writer *w);
void rlx_json_put_key(struct rlx_json_writer *w, const char *key);
void rlx_json_put_str(struct rlx_json_writer *w, const char *s);
void rlx_json_put_strn(struct rlx_json_writer *w, const char *s, size_t n);
void rlx_json_put_int(struct rlx_json_writer *w, int64_t v);
void rlx_json_put_double(struct rlx_json_writer *w, double v);
void rlx_json_put_bool(struct rlx_json_writer *w, bool v);
void rlx_json_put_null(struct rlx_json_writer *w);

#endif
