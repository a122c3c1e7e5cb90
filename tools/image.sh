#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes an OCI image of rlxd: $BUILD/image/rlxd-VERSION-ARCH.tar, or the file named.
#
#   tools/image.sh [FILE]
#
# It holds the program, the libraries that it loads on this system with their licences,
# and a configuration; no shell and no packages. Nothing is asked of the network. The
# same files make the same image, byte by byte: times are SOURCE_DATE_EPOCH, else that
# of the last commit, else of debian/changelog. The file is an OCI layout as a tar, and
# has a manifest.json besides, so that any `docker load` takes it.
set -eu
umask 022
export LC_ALL=C TZ=UTC PATH="$PATH:/usr/sbin:/sbin"

BUILD=${BUILD:-build}

die()
{
	printf 'image: %s\n' "$1" >&2
	exit 1
}

rlxd=$BUILD/bin/rlxd
[ -x "$rlxd" ] || die "$rlxd is not there; 'make rlxd' builds it"
for tool in tar gzip strip ldd sha256sum; do
	command -v "$tool" >/dev/null || die "$tool is missing; 'tools/setup.sh rlxd' installs it"
done
version=$("$rlxd" --version | cut -d' ' -f2)
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) die "there is no name for $(uname -m) in OCI that this knows" ;;
esac
out=${1:-$BUILD/image/rlxd-$version-$arch.tar}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null ||
	date -d "$(sed -n 's/^ -- .*>  //p' debian/changelog | head -n 1)" +%s)}
mkdir -p "$(dirname "$out")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT INT TERM
root=$tmp/root

# The files that the loader takes for $1, its own included.
libraries()
{
	ldd "$1" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p'
}

# What is opened at run time: TLS has no other way in.
opened()
{
	for name in libssl.so.3 libcrypto.so.3; do
		path=$(ldconfig -p | sed -n "s/^[[:space:]]*$name (.*x86-64.*) => //p;
			s/^[[:space:]]*$name (.*AArch64.*) => //p" | head -n 1)
		[ -n "$path" ] || die "$name is not on this system (package libssl3)"
		printf '%s\n' "$path"
		libraries "$path"
	done
}

# The package of a file, by either name that a merged /usr gives it.
package_of()
{
	for name in "$1" "/usr$1" "${1#/usr}"; do
		dpkg-query -S "$name" 2>/dev/null | sed -n '1s/[:,].*//p' | grep . && return
	done
	return 1
}

tree()
{
	mkdir -p "$root/usr/sbin" "$root/etc/rlxd" "$root/var/lib/rlxd" "$root/proc" \
		"$root/dev" "$root/sys" "$root/run" "$root/tmp" "$root/usr/share/doc/rlxd"
	strip --strip-unneeded -o "$root/usr/sbin/rlxd" "$rlxd"
	{ libraries "$rlxd"; opened; } >"$tmp/libraries"
	sort -u "$tmp/libraries" >"$tmp/libraries.once"
	while read -r lib; do
		mkdir -p "$root$(dirname "$lib")"
		cp -L "$lib" "$root$lib"
		chmod 755 "$root$lib"
		package=$(package_of "$lib" || package_of "$(realpath "$lib")") ||
			die "$lib is of no package: whose licence is it under?"
		mkdir -p "$root/usr/share/doc/$package"
		cp -L "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/"
	done <"$tmp/libraries.once"
	cp LICENSES/*MIT* "$root/usr/share/doc/rlxd/"
	printf 'root:x:0:0::/:/nonexistent\nrlxd:x:65532:65532::/var/lib/rlxd:/nonexistent\n' \
		>"$root/etc/passwd"
	printf 'root:x:0:\nrlxd:x:65532:\n' >"$root/etc/group"
	printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
	cat >"$root/etc/rlxd/rlxd.conf" <<-EOF
	# Mount your own over it; rlxd.conf(5) tells the options. A container has addresses
	# of its own: who reaches this port is what its network lets in.
	[server]
	listen_insecure = 0.0.0.0:8000
	EOF
	chmod -R u+rwX,go+rX,go-w "$root"
	chmod 1777 "$root/tmp"
}

# A folder as a tar: by name, without users, times and places of this machine.
pack()
{
	tar --sort=name --format=ustar --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
		-C "$1" -cf - .
}

sha_of() { sha256sum "$1" | cut -d' ' -f1; }

# Put file $1 among the blobs; tells its hash.
blob()
{
	sha=$(sha_of "$1")
	mv "$1" "$tmp/oci/blobs/sha256/$sha"
	printf '%s' "$sha"
}

descriptor()
{
	printf '{"mediaType":"%s","digest":"sha256:%s","size":%s%s}' "$1" "$2" \
		"$(stat -c %s "$tmp/oci/blobs/sha256/$2")" "${3:-}"
}

oci=application/vnd.oci.image
tree
mkdir -p "$tmp/oci/blobs/sha256"
pack "$root" >"$tmp/layer.tar"
diff=$(sha_of "$tmp/layer.tar")
gzip -9n "$tmp/layer.tar"
layer=$(blob "$tmp/layer.tar.gz")
when=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
cat >"$tmp/config" <<EOF
{"architecture":"$arch","os":"linux","created":"$when",
"config":{"User":"65532:65532","WorkingDir":"/var/lib/rlxd","Env":["PATH=/usr/sbin"],
"Entrypoint":["/usr/sbin/rlxd"],"Cmd":["--config","/etc/rlxd/rlxd.conf"],
"ExposedPorts":{"8000/tcp":{}},"StopSignal":"SIGTERM",
"Labels":{"org.opencontainers.image.title":"rlxd","org.opencontainers.image.version":"$version",
"org.opencontainers.image.licenses":"MIT"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$diff"]},
"history":[{"created":"$when","created_by":"tools/image.sh"}]}
EOF
config=$(blob "$tmp/config")
printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":%s,"layers":[%s]}' "$oci" \
	"$(descriptor $oci.config.v1+json "$config")" \
	"$(descriptor $oci.layer.v1.tar+gzip "$layer")" >"$tmp/manifest"
manifest=$(blob "$tmp/manifest")
what=$(printf ',"platform":{"architecture":"%s","os":"linux"},"annotations":{"%s":"%s"}' "$arch" \
	org.opencontainers.image.ref.name "$version")
printf '{"schemaVersion":2,"mediaType":"%s.index.v1+json","manifests":[%s]}' "$oci" \
	"$(descriptor $oci.manifest.v1+json "$manifest" "$what")" >"$tmp/oci/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$tmp/oci/oci-layout"
printf '[{"Config":"blobs/sha256/%s","RepoTags":["rlxd:%s"],"Layers":["blobs/sha256/%s"]}]' \
	"$config" "$version" "$layer" >"$tmp/oci/manifest.json"
pack "$tmp/oci" >"$out.new"
mv "$out.new" "$out"
printf '  IMAGE   %s (sha256:%s)\n' "$out" "$manifest"
