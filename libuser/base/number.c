// SPDX-License-Identifier: MIT
/* Numbers in texts, by the locale "C", which is never allocated. */
#include <stdlib.h>

#include "base/number.h"

double rlx_strtod(const char *s, char **end)
{
	locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double v = c ? strtod_l(s, end, c) : strtod(s, end);

	if (c)
		freelocale(c);
	return v;
}

locale_t rlx_point_begin(void)
{
	return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void rlx_point_end(locale_t before)
{
	locale_t own = uselocale(before);

	if (own != before)	/* else there was no memory for one */
		freelocale(own);
}
