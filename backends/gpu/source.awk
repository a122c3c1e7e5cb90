# SPDX-License-Identifier: MIT
# Makes gpu/text.h: SOURCE(name, text) of each *.cu, HEADER(path, text) of others,
# and std.h once more under each name that it stands for. Comments are left out where
# they fill a line. Those above a table's rows go with their lines, so that what is said of
# an op makes no other key of the kernels that were compiled.
function flush(	i, n, names)
{
	if (path == "")
		return
	n = split(path ~ /std\.h$/ ? path " stdint.h stddef.h stdbool.h" : path, names, " ")
	for (i = 1; i <= n; i++) {
		name = names[i]
		sub(/^libuser\/(include\/)?/, "", name)
		if (name ~ /\.cu$/) {
			sub(/.*\//, "", name)
			sub(/\.cu$/, "", name)
			printf "SOURCE(\"%s\",\n%s)\n", name, text
		} else {
			printf "HEADER(\"%s\",\n%s)\n", name, text
		}
	}
}
FNR == 1 { flush(); path = FILENAME; text = ""; comment = begun = 0 }
{
	line = $0
	if (!comment && line ~ /^[ \t]*\/\*/ && line !~ /\*\/./) {
		begun = FNR
		if (line !~ /\*\//)
			comment = 1
		line = ""
	} else if (comment) {
		if (line ~ /\*\//)
			comment = 0
		line = ""
	}
	if (line == "" && begun > 2 && path ~ /\.def$/)
		next
	if (line ~ /^[ \t]*\/\/ /)
		line = ""
	sub(/^[ \t]+/, "", line)
	gsub(/["\\]/, "\\\\&", line)
	text = text "\"" line "\\n\"\n"
}
END { flush() }
