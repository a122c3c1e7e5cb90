// SPDX-License-Identifier: MIT
/* selftests/serve/oom.c on the channels of the module. */
/* rig: timeout=240 */
#define SERVE_TRANSPORT	"kmod"
#include "selftests/lib/serve_test.c"
#include "selftests/serve/oom.c"
