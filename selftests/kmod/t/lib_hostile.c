// SPDX-License-Identifier: MIT
/* The tests of selftests/mem/hostile.c, with arenas of the module. */
/* rig: timeout=120 */
#include <stdlib.h>

/* Before what that file does at the start. */
__attribute__((constructor(101))) static void say_kmod(void)
{
	setenv("RLX_TEST_PROVIDER", "kmod", 1);
}

#include "selftests/mem/hostile.c"
