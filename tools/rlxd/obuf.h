/* SPDX-License-Identifier: MIT */
/* A growing buffer that replies are written into; failure sticks. */
#ifndef RLXD_OBUF_H
#define RLXD_OBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct account;

/* Zero-initialise before use. */
struct obuf {
	char		*p;
	size_t		 n, cap;
	bool		 failed;
	struct account	*account;	/* its room is charged to; NULL: nobody */
};

void obuf_put(struct obuf *o, const void *p, size_t n);
void obuf_str(struct obuf *o, const char *s);
void obuf_fmt(struct obuf *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void obuf_int(struct obuf *o, int64_t v);
void obuf_u64(struct obuf *o, uint64_t v);
/* The shortest of 6 to 9 digits that reads back as the same float; no NaN: null. */
void obuf_float(struct obuf *o, float v);
void obuf_double(struct obuf *o, double v);
/* A JSON string with its quotes: see json_char(). */
void obuf_json(struct obuf *o, const char *s, size_t n);
void obuf_base64(struct obuf *o, const void *p, size_t n);
/* As it was before the first byte; the account stays. */
void obuf_fini(struct obuf *o);

#endif
