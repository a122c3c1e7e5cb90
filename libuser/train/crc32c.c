// SPDX-License-Identifier: MIT
/*
 * CRC-32C. The instruction of SSE4.2 takes eight bytes a cycle, but each waits three for the
 * one before: three streams side by side, joined by a product with a power of x, hide that.
 */
#include <pthread.h>
#include <string.h>

#include "train/crc32c.h"

enum { POLY = (int)0x82f63b78u, BLOCK = 4096 };

static uint32_t table[8][256];
static uint32_t shift_block[32];	/* by BLOCK bytes of zeros, a row for each bit */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* a * b modulo the polynomial, bits reflected: bit 31 is x^0. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t m = 1u << 31, p = 0;

	for (; m; m >>= 1) {
		if (a & m)
			p ^= b;
		b = b & 1 ? (b >> 1) ^ (uint32_t)POLY : b >> 1;
	}
	return p;
}

/* x^(8 n) modulo the polynomial. */
static uint32_t power(uint64_t n)
{
	uint32_t p = 1u << 31, sq = 1u << 23;	/* 1 and x^8 */

	for (; n; n >>= 1, sq = multiply(sq, sq))
		if (n & 1)
			p = multiply(p, sq);
	return p;
}

static void prepare(void)
{
	uint32_t i, k, c, by = power(BLOCK);

	for (i = 0; i < 256; i++) {
		for (c = i, k = 0; k < 8; k++)
			c = c & 1 ? (c >> 1) ^ (uint32_t)POLY : c >> 1;
		table[0][i] = c;
	}
	for (k = 1; k < 8; k++)
		for (i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
	for (i = 0; i < 32; i++)
		shift_block[i] = multiply(by, 1u << i);
}

uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t n)
{
	return multiply(power(n), first) ^ second;
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t n)
{
	const uint8_t *p = data;
	uint64_t w;

	pthread_once(&once, prepare);
	crc = ~crc;
	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&w, p, 8);
		w ^= crc;
		crc = table[7][w & 255] ^ table[6][w >> 8 & 255] ^ table[5][w >> 16 & 255] ^
		      table[4][w >> 24 & 255] ^ table[3][w >> 32 & 255] ^
		      table[2][w >> 40 & 255] ^ table[1][w >> 48 & 255] ^ table[0][w >> 56];
	}
	for (; n; n--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
	return ~crc;
}

#ifdef __x86_64__
static uint32_t shifted(uint32_t c)
{
	uint32_t r = 0;

	for (; c; c &= c - 1)
		r ^= shift_block[__builtin_ctz(c)];
	return r;
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p,
								  size_t n)
{
	uint64_t a = ~crc, w;

	for (; n >= 3 * BLOCK; n -= 3 * BLOCK, p += 3 * BLOCK) {
		uint64_t b = 0, c = 0;
		size_t i;

		for (i = 0; i < BLOCK; i += 8) {
			memcpy(&w, p + i, 8);
			a = __builtin_ia32_crc32di(a, w);
			memcpy(&w, p + BLOCK + i, 8);
			b = __builtin_ia32_crc32di(b, w);
			memcpy(&w, p + 2 * BLOCK + i, 8);
			c = __builtin_ia32_crc32di(c, w);
		}
		a = shifted((uint32_t)a) ^ b;
		a = shifted((uint32_t)a) ^ c;
	}
	for (; n >= 8; n -= 8, p += 8) {
		memcpy(&w, p, 8);
		a = __builtin_ia32_crc32di(a, w);
	}
	for (; n; n--)
		a = __builtin_ia32_crc32qi((uint32_t)a, *p++);
	return ~(uint32_t)a;
}
#endif

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2")) {
		pthread_once(&once, prepare);
		return by_instruction(crc, p, n);
	}
#endif
	return crc32c_portable(crc, p, n);
}
