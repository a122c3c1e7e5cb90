/* SPDX-License-Identifier: MIT */
/* Whole numbers with a unit behind them, as configuration files have sizes and times. */
#ifndef RLX_BASE_SCALED_H
#define RLX_BASE_SCALED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A table of them ends with one whose name is NULL. */
struct rlx_unit {
	const char	*name;
	int64_t		 factor;
};

/* Bytes: K, M and G are 1024, 1024^2 and 1024^3. */
static const struct rlx_unit rlx_size_units[] = {
	{ "", 1 }, { "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 }, { NULL, 0 },
};

/* A number and what stands behind it; false if there is none or it is too large. */
static inline bool rlx_whole_number(const char *s, int64_t *out, const char **rest)
{
	int64_t v = 0;

	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, *s - '0', &v))
			return false;
	*out = v;
	*rest = s;
	return true;
}

/* A number and, behind any blanks, one of @u's units; false: it is none, or beyond 64 bits. */
static inline bool rlx_scaled(const char *s, const struct rlx_unit *u, int64_t *out)
{
	const char *rest;
	int64_t v;

	if (!rlx_whole_number(s, &v, &rest))
		return false;
	rest += strspn(rest, " ");
	for (; u->name; u++)
		if (!strcmp(u->name, rest))
			return !__builtin_mul_overflow(v, u->factor, out);
	return false;
}

#endif
