// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxFileSize is how many bytes a file may hold for ReadFiles and ReadDir: 64 MiB, a multiple of
// what the objects of a large cluster take.
const MaxFileSize = 64 << 20

// Reasons for not reading a file, to be found with errors.Is.
var (
	// ErrNotRegular says that what a folder holds under the name of a manifest is no regular file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge says that a file holds more than MaxFileSize.
	ErrTooLarge = fmt.Errorf("the file holds more than %d bytes", MaxFileSize)
)

// readFile reads a file of any sort, up to the limit.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLimited(f)
}

// readRegular reads a regular file. It looks before it opens, since opening alone sets some devices
// to work; it does not wait for what takes the place of the file in between, and looks again.
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
