#!/bin/sh
# SPDX-License-Identifier: MIT
# SPIR-V files -> a table of their words by name, as C.
set -eu

for f; do
	name=$(basename "$f" .spv)
	printf 'static const uint32_t spv_%s[] = {\n' "$name"
	od -An -v -tx4 "$f" | sed 's/ \([0-9a-f]\{8\}\)/0x\1, /g'
	echo '};'
done
echo 'static const struct { const char *name; const uint32_t *code; size_t bytes; } kernels[] = {'
for f; do
	name=$(basename "$f" .spv)
	printf '\t{ "%s", spv_%s, sizeof(spv_%s) },\n' "$name" "$name" "$name"
done
echo '};'
