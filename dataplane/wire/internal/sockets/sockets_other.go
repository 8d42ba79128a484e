// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sockets

import (
	"fmt"
	"os"
)

// maxPath is the maximum length of the path of a socket in bytes.
const maxPath = 103

// shorten always returns an error.
func shorten(path string) (string, *os.File, error) {
	return "", nil, fmt.Errorf("the path of a socket has at most %d bytes: %s", maxPath, path)
}
