/* SPDX-License-Identifier: MIT */
/* Text files under some paths, split into paragraphs where they lie. */
#ifndef RLX_TOOLS_CORPUS_H
#define RLX_TOOLS_CORPUS_H

#include <stdint.h>

#include "io/formats/file.h"

/*
 * A run of lines that are not blank, in the mapped file. The same words in
 * several places are one paragraph, at the first, with @copies others.
 */
struct para {
	const char	*text;
	uint32_t	 len, file, line, copies;
	uint32_t	 tokens;	/* set by who counts them */
};

struct corpus_file {
	char		*path;
	struct rlx_file	 map;
};

struct corpus {
	struct corpus_file	*file;
	uint32_t		 n_file, cap_file;
	struct para		*para;
	uint32_t		 n_para, cap_para;
	uint32_t		 n_binary, n_short, n_same;	/* what was left out */
};

/*
 * Add all regular files at or under @path, in order of names. A link is followed
 * only if @path itself is one; files with a zero byte near their start are left
 * out, and paragraphs with fewer than @min_letters letters.
 */
enum rlx_status __rlx_must_check
corpus_add(struct corpus *c, const char *path, struct rlx_error *err);
enum rlx_status __rlx_must_check
corpus_split(struct corpus *c, uint32_t min_letters, struct rlx_error *err);
void corpus_fini(struct corpus *c);

#endif
