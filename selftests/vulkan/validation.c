// SPDX-License-Identifier: MIT
/*
 * The other test programs once more under Khronos's validation layer, which prints what it
 * finds: nothing may be. That it looks at all is shown by a call that is wrong.
 */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/vulkan/vk.h"
#include "rt/rt.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 1 << 20 };

/* What @fn and what it execs print, up to MOST bytes; its status. */
static int output_of(void (*fn)(void *), void *arg, char *out)
{
	size_t n = 0, got;
	int fd[2], st;
	pid_t pid;
	FILE *f;

	CHECK(!pipe(fd));
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation", 1);
		dup2(fd[1], 1);
		dup2(fd[1], 2);
		close(fd[0]);
		close(fd[1]);
		fn(arg);
		fflush(NULL);
		_exit(0);
	}
	close(fd[1]);
	f = fdopen(fd[0], "r");
	while ((got = fread(out + n, 1, MOST - 1 - n, f)) > 0)
		n += got;
	out[n] = 0;
	fclose(f);
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	return st;
}

static void program(void *arg)
{
	char path[4096], *const *argv = arg;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);

	if (n < 0)
		_exit(126);
	path[n] = 0;
	dirname(path);
	snprintf(path + strlen(path), 64, "/%s", argv[0]);
	execv(path, argv);
	_exit(127);
}

static void must_be_silent(char *const *argv)
{
	char *out = malloc(MOST), *at;
	int st = output_of(program, (void *)(uintptr_t)argv, out);

	at = strstr(out, "Validation");
	at = at ? at : strstr(out, "VUID");
	CHECKF(!at, "%.600s", at);
	CHECKF(WIFEXITED(st) && !WEXITSTATUS(st), "status %d: %.300s", st, out);
	free(out);
}

TEST(ops)
{
	must_be_silent((char *[]){ "ops", "f32", NULL });
}

TEST(device)
{
	must_be_silent((char *[]){ "device", "in_place", "beyond_four_gib", "staged", "threads",
				   "no_host_memory", NULL });
}

/* Also what is undone behind a failure. */
TEST(faults)
{
	must_be_silent((char *[]){ "faults", NULL });
}

static void make_empty_buffer(void *arg)
{
	const VkBufferCreateInfo how = { .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
					 .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT };
	struct rlx_error err = { 0 };
	struct rlx_device *d = NULL;
	struct vk_device *v;
	VkBuffer b;

	if (rlx_device_get("vulkan", 0, &d, &err))
		return;
	v = (struct vk_device *)d;
	(void)!v->api.CreateBuffer(v->dev, &how, NULL, &b);
}

TEST(it_looks)
{
	char *out = malloc(MOST);

	output_of(make_empty_buffer, NULL, out);
	CHECKF(strstr(out, "VUID-VkBufferCreateInfo-size-00912"), "%.300s", out);
	free(out);
}

TEST_MAIN()
