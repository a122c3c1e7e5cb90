/* SPDX-License-Identifier: MIT */
/* What goes to a terminal: names of others are shown there, not obeyed. */
#ifndef RLX_TOOLS_TERMINAL_H
#define RLX_TOOLS_TERMINAL_H

#include <stdio.h>

/*
 * From now on control characters that are written to standard output and error, and lines of the
 * log, stand as \x1b where a terminal reads them; line ends and tabs remain. What goes elsewhere is
 * left as it is. Once, before anything is written.
 */
void terminal_guard(void);

/* A control sequence of our own to @f, which is a terminal */
void terminal_put(FILE *f, const char *sequence);

#endif
