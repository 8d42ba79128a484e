// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"bytes"
	"sync"
)

// Log is a log whose method Cross orders reads and writes; see the package comment.
type Log struct {
	mu      sync.Mutex
	crossed int
	text    bytes.Buffer
}

// NewLog returns an empty Log.
func NewLog() *Log { return &Log{} }

// Cross orders accesses to memory. If one goroutine calls Cross and later another one does, all
// accesses of the first before its call happen before all accesses of the second after its call.
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
