/* SPDX-License-Identifier: MIT */
/* Libraries of ours that are opened when they are wanted. */
#ifndef RLX_BASE_LIBRARY_H
#define RLX_BASE_LIBRARY_H

enum { RLX_LIBRARY_WHY = 224 };

/*
 * Open @file as it stands beside the file that this code is in, else where the loader looks.
 * It stays open. Return: its handle; NULL, with what was wrong in @why.
 */
void *rlx_library_open(const char *file, char why[RLX_LIBRARY_WHY]);

#endif
