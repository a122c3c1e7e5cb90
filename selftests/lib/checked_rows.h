/* SPDX-License-Identifier: MIT */
/* Steps that check what they read, under an active extent, on any backend. */
#ifndef SELFTESTS_CHECKED_ROWS_H
#define SELFTESTS_CHECKED_ROWS_H

/*
 * Every op whose kernels or evaluation can find fault with an index, a position, a
 * region or a row: rows of the inputs behind the extent hold what none may read
 * (indices far out of range, NaN), and each run is well and right; one bad index in a
 * row that carries data is RLX_ERANGE, and the next run is well again.
 */
void checked_rows(const char *device);

#endif
