# SPDX-License-Identifier: MIT
# Makes rlxd@.service of rlxd.service: servers that serve in turns, by an fd store.
s/^Description=.*/&, one of those that serve in turns\
Conflicts=rlxd.service rlxd.socket/
s/^Wants=/&rlxd-fd-store.service /
s/^After=/&rlxd-fd-store.service rlxd.service rlxd.socket /
s/^RuntimeDirectory=.*/&\
RuntimeDirectoryPreserve=yes/
/^FileDescriptorStoreMax=/d
