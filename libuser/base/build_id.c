// SPDX-License-Identifier: MIT
/* Finds the note with the build id among the loaded files' segments. */
#include <link.h>
#include <string.h>

#include "base/build_id.h"

struct search {
	uintptr_t	 code;	/* an address in the file looked for */
	uint8_t		*out;
	bool		 found;
};

static bool holds(const struct dl_phdr_info *f, uintptr_t at)
{
	int i;

	for (i = 0; i < f->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &f->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && at - (f->dlpi_addr + p->p_vaddr) < p->p_memsz)
			return true;
	}
	return false;
}

static bool take_note(const char *at, size_t n, uint8_t *out)
{
	while (n >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *h = (const void *)at;
		size_t name = (h->n_namesz + 3u) & ~3u, desc = (h->n_descsz + 3u) & ~3u;
		const char *p = at + sizeof(*h);

		if (name + desc > n - sizeof(*h))
			return false;
		if (h->n_type == NT_GNU_BUILD_ID && name == 4 && !memcmp(p, "GNU", 4) &&
		    h->n_descsz && h->n_descsz <= RLX_BUILD_ID_BYTES) {
			memcpy(out, p + name, h->n_descsz);
			return true;
		}
		at += sizeof(*h) + name + desc;
		n -= sizeof(*h) + name + desc;
	}
	return false;
}

static int look(struct dl_phdr_info *f, size_t size, void *ctx)
{
	struct search *s = ctx;
	int i;

	if (!holds(f, s->code))
		return 0;
	for (i = 0; i < f->dlpi_phnum && !s->found; i++) {
		const ElfW(Phdr) *p = &f->dlpi_phdr[i];

		if (p->p_type == PT_NOTE)
			s->found = take_note((const char *)f->dlpi_addr + p->p_vaddr,
					     p->p_memsz, s->out);
	}
	return 1;
}

bool rlx_build_id(uint8_t out[RLX_BUILD_ID_BYTES])
{
	struct search s = { .code = (uintptr_t)look, .out = out };

	memset(out, 0, RLX_BUILD_ID_BYTES);
	dl_iterate_phdr(look, &s);
	return s.found;
}
