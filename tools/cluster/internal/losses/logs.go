// SPDX-License-Identifier: Apache-2.0

package losses

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// Logs reads the lines of probers from the log files of their containers, each line once. It is for
// one goroutine. It keeps the files open: when a file has 10 MiB, kubelet renames it, but the
// container runtime may still write to it. Later, kubelet compresses or deletes the file.
type Logs struct {
	pattern string // of the files
	files   []*logFile
}

type logFile struct {
	path string // path at which it was found
	file *os.File
	read int64 // bytes read so far
	done bool  // nothing writes to it any more
}

// NewLogs returns a reader of the files that match a pattern of [filepath.Glob]. Close closes them.
func NewLogs(pattern string) *Logs { return &Logs{pattern: pattern} }

// Close closes the files.
func (l *Logs) Close() {
	for _, f := range l.files {
		_ = f.file.Close()
	}
	l.files = nil
}

// Read returns the lines that were added since the last call. It returns all other output of the
// containers as problems.
func (l *Logs) Read() (lines []probe.Line, problems []string, err error) {
	paths, err := filepath.Glob(l.pattern)
	if err != nil {
		return nil, nil, err
	}
	if err := l.open(paths); err != nil {
		return nil, nil, err
	}
	kept := l.files[:0]
	var errs []error
	for _, f := range l.files {
		text, err := f.readLines()
		errs = append(errs, err)
		for line := range strings.Lines(text) {
			parsed, err := parseLogLine(line)
			if err != nil {
				problems = append(problems,
					filepath.Base(filepath.Dir(filepath.Dir(f.path)))+": "+strings.TrimSpace(line))
				continue
			}
			lines = append(lines, parsed)
		}
		// The next call reads the lines that were written just before the file was replaced.
		if f.done && text == "" {
			_ = f.file.Close()
			continue
		}
		f.done = f.isReplaced()
		kept = append(kept, f)
	}
	clear(l.files[len(kept):])
	l.files = kept
	return lines, problems, errors.Join(errs...)
}

// open opens the files that are new.
func (l *Logs) open(paths []string) error {
	var errs []error
	for _, path := range paths {
		if slices.ContainsFunc(l.files, func(f *logFile) bool { return f.path == path && f.hasPath() }) {
			continue
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its pod was deleted meanwhile
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.files = append(l.files, &logFile{path: path, file: file})
	}
	return errors.Join(errs...)
}

// hasPath reports whether the file is still at that path.
func (f *logFile) hasPath() bool {
	opened, err := f.file.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(f.path)
	return err == nil && os.SameFile(opened, found)
}

// isReplaced reports whether the file was deleted, or has another name and its path has another
// file. If its path has no file, the runtime still writes to the renamed file.
func (f *logFile) isReplaced() bool {
	opened, err := f.file.Stat()
	if err != nil {
		return true
	}
	if status, ok := opened.Sys().(*syscall.Stat_t); ok && status.Nlink == 0 {
		return true
	}
	found, err := os.Stat(f.path)
	return err == nil && !os.SameFile(opened, found)
}

// readLines returns the complete lines that have not been read. A file that is shorter than before
// is read from its start.
func (f *logFile) readLines() (string, error) {
	info, err := f.file.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() < f.read {
		f.read = 0
	}
	content, err := io.ReadAll(io.NewSectionReader(f.file, f.read, info.Size()-f.read))
	if err != nil {
		return "", err
	}
	complete := bytes.LastIndexByte(content, '\n') + 1
	f.read += int64(complete)
	return string(content[:complete]), nil
}

var errNotProber = errors.New("no line of a prober")

// parseLogLine parses a line of a container's log file: time, stream, F (full) or P (partial),
// text.
func parseLogLine(text string) (probe.Line, error) {
	var line probe.Line
	fields := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 4)
	if len(fields) < 4 || fields[1] != "stdout" || fields[2] != "F" {
		return line, errNotProber
	}
	if err := json.Unmarshal([]byte(fields[3]), &line); err != nil || line.Pod == "" {
		return line, errNotProber
	}
	return line, nil
}
