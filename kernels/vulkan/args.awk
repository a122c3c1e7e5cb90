# SPDX-License-Identifier: MIT
# The assembler text of args.c -> GLSL blocks, which are reached by their address.
BEGIN { print "/* Made by args.awk. */" }

!/\.ascii[ \t]*"->/ { next }

{
	sub(/.*\.ascii[ \t]*"->/, "")
	sub(/".*/, "")
}

$1 == "struct" {
	if (n++)
		print "};"
	print "layout(buffer_reference, scalar, buffer_reference_align = 8) readonly"
	printf "buffer %s_t {\n", $2
}

$1 == "field" {	# in and out are words of GLSL
	printf("\tlayout(offset = %d) %s %s%s;\n", $5, $2, $3 ~ /^(in|out)$/ ? $3 "_" : $3,
	       $4 > 1 ? "[" $4 "]" : "")
}

$1 == "offset" { defines = defines "#define " $2 " " $3 "\n" }

END { printf "};\n%s", defines }
