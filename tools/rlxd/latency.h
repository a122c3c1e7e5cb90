/* SPDX-License-Identifier: MIT */
/*
 * How long requests took, by route, model and key. Labels come from routes and from the
 * configuration alone, never from what a peer sends.
 */
#ifndef RLXD_LATENCY_H
#define RLXD_LATENCY_H

#include <stdint.h>

struct obuf;
struct req;

/* @r, whose reply was sent whole, took @ns. Any thread; no heap. */
void latency_add(const struct req *r, int64_t ns);

/* The histograms that @r may see: its own key's, those of no key, or all. */
void latency_print(const struct req *r, struct obuf *o);

#endif
