# SPDX-License-Identifier: MIT
# Makes rlxd@.service of rlxd.service: servers that serve in turns, by a keeper.
s/^Description=.*/&, one of those that serve in turns\
Conflicts=rlxd.service rlxd.socket/
s/^Wants=/&rlxd-keeper.service /
s/^After=/&rlxd-keeper.service rlxd.service rlxd.socket /
s/^RuntimeDirectory=.*/&\
RuntimeDirectoryPreserve=yes/
/^FileDescriptorStoreMax=/d
