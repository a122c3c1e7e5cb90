// SPDX-License-Identifier: MIT
/* Sequences turned round, each by a length that is data. */
#include <string.h>

#include "kernels/cpu/index_at.h"
#include "kernels/kernel.h"
#include "kernels/move.h"

rlx_k_fn RLX_K(reverse);

/* Of sequence @b; 0, with *bad set where it counts, for one out of range. */
static int64_t length_at(const struct rlx_k_reverse *a, int64_t b)
{
	int64_t len = rlx_k_index(a->lens, a->lens_type, (size_t)b);

	if (len >= 0 && len <= a->dim[a->time])
		return len;
	if (b < a->live)
		__atomic_store_n(a->bad, 1, __ATOMIC_RELAXED);
	return 0;
}

static void put(char *d, const char *s, size_t n)
{
	if (n == 4)
		memcpy(d, s, 4);
	else
		memcpy(d, s, n);
}

void RLX_K(reverse)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_reverse *a = args;
	const int64_t n = a->dim[1], post = a->post;

	(void)scratch;
	for (int64_t u = (int64_t)begin; u < (int64_t)end; u++) {
		int64_t outer = u / a->mid % a->dim[0], row = u * n;
		int64_t len = a->time ? length_at(a, outer) : 0;

		for (int64_t i = 0; i < n; i++) {
			int64_t from = row + i;

			if (a->time) {
				from = row + (i < len ? len - 1 - i : i);
			} else {
				len = length_at(a, i);
				if (outer < len)
					from += (len - 1 - 2 * outer) * a->mid * n;
			}
			put((char *)a->dst + (row + i) * post, (const char *)a->src + from * post,
			    (size_t)post);
		}
	}
}
