/* SPDX-License-Identifier: MIT */
/* Variables of the environment that say one of a few words. */
#ifndef RLX_BASE_ENV_H
#define RLX_BASE_ENV_H

#include <stdatomic.h>

/*
 * Which of @word[n] the variable @name says; -1: none. One that says something else is named in
 * the log, with the words there are, the first time that *@told is false. Any thread; no heap.
 */
int rlx_env_word(const char *name, const char *const *word, int n, atomic_bool *told);

#endif
