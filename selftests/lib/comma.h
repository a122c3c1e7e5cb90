/* SPDX-License-Identifier: MIT */
/*
 * A locale whose decimal point is a comma, made here as few machines have one; @dir: a template
 * of mkdtemp() for where.
 */
#ifndef SELFTESTS_COMMA_H
#define SELFTESTS_COMMA_H

void comma_begin(char *dir);
void comma_end(const char *dir);

#endif
