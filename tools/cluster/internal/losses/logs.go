// SPDX-License-Identifier: Apache-2.0

package losses

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// Logs reads the lines of probers from the log files of their containers, each line once. It is for
// one goroutine.
type Logs struct {
	pattern string           // of the files
	offsets map[string]int64 // by file: what has been read
}

// NewLogs returns a reader of the files that match a pattern of [filepath.Glob].
func NewLogs(pattern string) *Logs {
	return &Logs{pattern: pattern, offsets: map[string]int64{}}
}

// Read returns the lines that were added since the last call. Output of containers that is no line
// of a prober is in problems.
func (l *Logs) Read() (lines []probe.Line, problems []string, err error) {
	files, err := filepath.Glob(l.pattern)
	if err != nil {
		return nil, nil, err
	}
	// A pod that is made again with the same UID has files of the same names.
	maps.DeleteFunc(l.offsets, func(file string, _ int64) bool { return !slices.Contains(files, file) })
	for _, file := range files {
		content, err := readFrom(file, l.offsets[file])
		if errors.Is(err, fs.ErrNotExist) {
			continue // its pod was deleted meanwhile
		}
		if err != nil {
			return lines, problems, err
		}
		complete := bytes.LastIndexByte(content, '\n') + 1
		l.offsets[file] += int64(complete)
		for text := range strings.Lines(string(content[:complete])) {
			line, err := parseLogLine(text)
			if err != nil {
				problems = append(problems,
					filepath.Base(filepath.Dir(filepath.Dir(file)))+": "+strings.TrimSpace(text))
				continue
			}
			lines = append(lines, line)
		}
	}
	return lines, problems, nil
}

func readFrom(file string, offset int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

var errNotProber = errors.New("no line of a prober")

// parseLogLine parses a line of a container's log file: time, stream, F (full) or P (partial), text.
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
