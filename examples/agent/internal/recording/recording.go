// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

var _ io.WriteCloser = (*File)(nil)

// ErrFull is wrapped by the error of Write if the file has reached its maximum size.
var ErrFull = errors.New("is as large as it may be")

// File is a recording that is being written. It is for one goroutine.
type File struct {
	file  *os.File
	limit int64
	size  int64 // size of the written data
	whole int64 // size of its complete lines
	err   error // why nothing more is written
}

// Create makes a new file of at most limit bytes. Only its owner may read it, because it contains
// all policy. It renames an existing file to path.1.
//
// Create returns the errors of the disk. It also returns an error if path exists, but is not a
// regular file.
func Create(path string, limit int64) (*File, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("recording: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("recording: %s: is not a regular file", path)
	default:
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	return &File{file: file, limit: limit}, nil
}

// Write appends p. After a failure, the file ends with the last complete line, and every further
// Write fails.
//
// Errors: those of the disk, or an error that wraps ErrFull.
func (f *File) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	part := p[:min(int64(len(p)), f.limit-f.size)]
	n, err := f.file.Write(part)
	if end := bytes.LastIndexByte(part[:n], '\n'); end >= 0 {
		f.whole = f.size + int64(end) + 1
	}
	f.size += int64(n)
	if err == nil && len(part) < len(p) {
		err = fmt.Errorf("%s: %w: %d bytes", f.file.Name(), ErrFull, f.limit)
	}
	if err != nil {
		f.err = errors.Join(fmt.Errorf("recording: %w", err), f.file.Truncate(f.whole))
	}
	return n, f.err
}

// Close ends the recording. Errors: those of the disk.
func (f *File) Close() error {
	if err := f.file.Close(); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}
