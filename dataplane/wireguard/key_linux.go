// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"io/fs"
	"os"
	"syscall"
)

// trusted reports whether a file belongs to the user of this process or to root.
func trusted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(stat.Uid) == os.Geteuid() || stat.Uid == 0)
}
