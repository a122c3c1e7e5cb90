// SPDX-License-Identifier: MIT
/* Names that were made to fall on one slot of a table: it stays as fast as with others. */
#include "base/map.h"
#include "selftests/lib/rlx_test.h"

enum { NAMES = 2000, LEN = 16 };

/* The first step of rlx_hash_bytes(), without a seed. */
static uint64_t first_step(uint64_t word)
{
	unsigned __int128 m = (unsigned __int128)(word ^ 0x9e3779b97f4a7c15u) *
			      0xa0761d6478bd642fu;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static bool printable(uint64_t word)
{
	int i;

	for (i = 0; i < 8; i++, word >>= 8)
		if ((word & 255) < ' ' || (word & 255) > '~')
			return false;
	return true;
}

/* Its second word is what the first one left, and takes it back to 0. */
static void make_name(uint64_t *count, char name[LEN])
{
	uint64_t word[2], left;
	int i;

	do {
		for (word[0] = 0, left = ++*count, i = 0; i < 8; i++, left /= 26)
			word[0] = word[0] << 8 | ('a' + left % 26);
		word[1] = first_step(word[0]);
	} while (!printable(word[1]));
	memcpy(name, word, LEN);
}

TEST(names_made_to_collide)
{
	uint64_t count = rlx_test_seed() >> 32, v;
	uint32_t i, run = 0, longest = 0, same = 0;
	struct rlx_map m = { 0 };
	static char name[NAMES][LEN];

	for (i = 0; i < NAMES; i++) {
		make_name(&count, name[i]);
		same += i && rlx_hash_bytes(name[i], LEN, 0) == rlx_hash_bytes(name[0], LEN, 0);
		CHECK(rlx_map_put(&m, name[i], LEN, i));
	}
	CHECKF(same == NAMES - 1, "only %u of the names have the hash of the first", same);
	for (i = 0; i < m.cap; i++) {
		run = m.slot[i].key ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	CHECKF(longest < NAMES / 10, "%u names of %u stand in a row", longest, m.n);
	for (i = 0; i < NAMES; i++)
		CHECK(rlx_map_get(&m, name[i], LEN, &v) && v == i);
	rlx_map_fini(&m);
}

TEST_MAIN()
