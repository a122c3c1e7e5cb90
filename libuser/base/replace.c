// SPDX-License-Identifier: MIT
/* Files that are replaced by renaming. */
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/replace.h"

/*
 * rename() takes the place of whatever has the name. Of a device that is its end, on /dev/null
 * for the whole machine; of a link like /dev/stdout as well.
 */
enum rlx_status rlx_replace_target(const char *path, char **out, struct rlx_error *err)
{
	char full[PATH_MAX];
	const char *to = path;
	struct stat sb;

	*out = NULL;
	if (!*path)
		return rlx_fail(err, RLX_ENOENT, "the name of the file to write is empty");
	if (!stat(path, &sb) && !S_ISREG(sb.st_mode))
		return rlx_fail(err, RLX_EBADFD, "%s: not a regular file, and no other kind is "
				"replaced: name another", path);
	if (!lstat(path, &sb) && S_ISLNK(sb.st_mode) && realpath(path, full))
		to = full;
	*out = rlx_strdup(to);
	return *out ? RLX_OK : rlx_fail(err, RLX_ENOMEM, "%s: no memory", path);
}
