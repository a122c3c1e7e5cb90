// SPDX-License-Identifier: MIT
/* Files of tokenizers that are made to take time or memory without end. */
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "rlx/tokenizer.h"
#include "selftests/lib/rlx_test.h"

/* A path that is a pipe nobody writes: refused, not waited for. */
TEST(a_pipe_is_no_file)
{
	char dir[] = "/tmp/rlx-test-XXXXXX", path[64];
	struct rlx_tokenizer *t;
	struct rlx_error err = { 0 };

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
	CHECK(!mkfifo(path, 0600));
	alarm(10);
	CHECK_EQ(rlx_tokenizer_new_file(path, NULL, &t, &err), RLX_EBADFD);
	alarm(0);
	CHECK(!t && strstr(err.text, "not a regular file"));
	unlink(path);
	rmdir(dir);
}

TEST_MAIN()
