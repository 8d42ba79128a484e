// SPDX-License-Identifier: Apache-2.0

package sockets

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxPath is the maximum length of the path of a socket in bytes: the length of sun_path, less the
// final zero.
const maxPath = 107

// shorten returns a short path of a socket or folder, which is valid until the file is closed.
func shorten(path string) (string, *os.File, error) {
	file, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(file.Fd())), file, nil
}
