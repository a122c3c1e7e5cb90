// SPDX-License-Identifier: MIT
/*
 * libFuzzer entry for the JSON reader: what it takes is walked, written, and must
 * read back as the same nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static uint32_t write_node(struct rlx_json_writer *w, const struct rlx_json *j,
			   uint32_t i)
{
	struct rlx_json_iter it;
	uint32_t items = 0;
	int64_t v;
	double d;

	switch (rlx_json_kind(j, i)) {
	case RLX_JSON_NULL:
		rlx_json_put_null(w);
		break;
	case RLX_JSON_BOOL:
		rlx_json_put_bool(w, j->node[i].truth);
		break;
	case RLX_JSON_NUM:
		if (rlx_json_int(j, i, &v))
			rlx_json_put_int(w, v);
		else if (rlx_json_double(j, i, &d))
			rlx_json_put_double(w, d);
		else
			abort();
		break;
	case RLX_JSON_STR:
		rlx_json_put_strn(w, rlx_json_text(j, i), rlx_json_len(j, i));
		break;
	default:
		rlx_json_put_begin(w, rlx_json_kind(j, i) == RLX_JSON_OBJ ?
				   '{' : '[');
		for (it = rlx_json_iter(j, i); rlx_json_next(&it); items++) {
			/* keys that hold a zero cannot be written as they are */
			char key[32];

			if (it.key) {
				snprintf(key, sizeof(key), "%u", items);
				rlx_json_put_key(w, key);
				rlx_json_get(j, i, rlx_json_text(j, it.key));
			}
			write_node(w, j, it.val);
		}
		if (items != j->node[i].len)
			abort();
		rlx_json_put_end(w);
	}
	return items;
}

static void round_trip(const struct rlx_json *j)
{
	struct rlx_json_limits deep = { .depth = RLX_JSON_DEPTH_MAX };
	struct rlx_json_writer w;
	struct rlx_error err = { 0 };
	struct rlx_json again;
	uint32_t i;
	char *buf;
	size_t len;
	FILE *f = open_memstream(&buf, &len);

	if (!f)
		return;
	rlx_json_writer_begin(&w, f, j->n & 1);
	write_node(&w, j, 0);
	if (!rlx_json_writer_end(&w))
		abort();
	fclose(f);
	if (rlx_json_parse(&again, buf, len, &deep, "again", &err)) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	if (again.n != j->n)
		abort();
	for (i = 0; i < j->n; i++)
		if (again.node[i].kind == RLX_JSON_STR &&
		    j->node[i].end != again.node[i].end)
			abort();
	rlx_json_fini(&again);
	free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct rlx_json_limits lim = { .nodes = n & 1 ? 50 : 0 };
	struct rlx_error err = { 0 };
	struct rlx_json j;

	if (rlx_json_parse(&j, (const char *)p, n, &lim, "fuzz", &err)) {
		if (!err.text[0] || j.node || j.text)
			abort();
		return 0;
	}
	round_trip(&j);
	rlx_json_fini(&j);
	return 0;
}
