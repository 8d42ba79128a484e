// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxFileSize is the maximum size of a file for ReadFiles and ReadDir, in bytes: 64 MiB, several
// times the size of a large cluster's objects.
const MaxFileSize = 64 << 20

// Sentinel errors for a file, for errors.Is.
var (
	// ErrNotRegular means that an entry of a folder has the extension of a manifest, but is not a
	// regular file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge means that a file is larger than MaxFileSize.
	ErrTooLarge = fmt.Errorf("the file has more than %d bytes", MaxFileSize)
)

// readFile reads a file of any type, up to the limit.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f)
}

// readRegular reads a regular file. It checks the type before it opens the file, because opening
// some devices has side effects. If the file is replaced meanwhile, it does not block on the new
// one, and checks the type again.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, ErrNotRegular
	}
	return readLimited(f)
}

func readLimited(f *os.File) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err == nil && len(data) > MaxFileSize {
		return nil, ErrTooLarge
	}
	return data, err
}
