// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"bytes"
	"sync"
)

// Log is a log for tests. Its method Cross orders accesses to memory; see the package comment.
type Log struct {
	mu      sync.Mutex
	crossed int
	text    bytes.Buffer
}

// NewLog returns an empty Log.
func NewLog() *Log { return &Log{} }

// Cross orders accesses to memory. Suppose that goroutine A calls Cross, and later goroutine B
// calls it. Then all accesses that A makes before its call happen before all accesses that B makes
// after its call.
func (l *Log) Cross() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crossed++
}

// Write implements io.Writer.
func (l *Log) Write(line []byte) (int, error) {
	l.Cross()
	return l.text.Write(line)
}

// String returns the written text.
func (l *Log) String() string { return l.text.String() }
