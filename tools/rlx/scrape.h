/* SPDX-License-Identifier: MIT */
/* The numbers that a server tells at /metrics, and what changed between two readings. */
#ifndef RLX_TOOLS_SCRAPE_H
#define RLX_TOOLS_SCRAPE_H

#include <stdint.h>
#include <sys/socket.h>

#include "rlx/status.h"

struct sample {
	char	*key;		/* name{labels} */
	double	 value;
};

/* Zero-initialise before use. */
struct scrape {
	char		*text;	/* what the keys point into */
	struct sample	*s;
	uint32_t	 n, cap;
	double		 when;	/* seconds, of now() */
};

/* Ask http at @to for its metrics; with @key, unless that is NULL or "". */
enum rlx_status __rlx_must_check
scrape_read(const struct sockaddr_storage *to, socklen_t to_len, const char *key,
	    struct scrape *out, struct rlx_error *err);
void scrape_fini(struct scrape *s);

/* The value of a key, 0 if it is not there. */
double scrape_get(const struct scrape *s, const char *key);
/* The change of a counter in a second; @before may be empty: since the start. */
double scrape_rate(const struct scrape *before, const struct scrape *s, const char *key);
/*
 * A share @q of what histogram @name (with @labels, "" or like model="x",) got
 * between two readings was below this; 0 if it got nothing.
 */
double scrape_quantile(const struct scrape *before, const struct scrape *s, const char *name,
		       const char *labels, double q);

#endif
