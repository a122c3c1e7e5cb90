/* SPDX-License-Identifier: MIT */
/* Numbers in texts have a point, whatever locale the program has chosen. */
#ifndef RLX_BASE_NUMBER_H
#define RLX_BASE_NUMBER_H

#include <locale.h>

/* strtod() of a text with a point. */
double rlx_strtod(const char *s, char **end);

/* The calling thread prints with a point from here on, until rlx_point_end() of what this gave. */
locale_t rlx_point_begin(void);
void rlx_point_end(locale_t before);

#endif
