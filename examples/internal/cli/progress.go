// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"sync"
	"time"
)

// Progress shows a person at a terminal how much of a long computation is done. It writes nothing to what is no
// terminal. It is safe for concurrent use.
type Progress struct {
	c    Console
	what string

	mu    sync.Mutex
	next  time.Time // when to say more; zero for no terminal
	shown bool
}

// The times until the first word of progress, and between them.
const (
	firstWord = time.Second
	nextWord  = 200 * time.Millisecond
)

// NewProgress returns the progress of something that a word names, as in "packets tried".
func NewProgress(c Console, what string) *Progress {
	p := &Progress{c: c, what: what}
	if isTerminal(c.Err) {
		p.next = time.Now().Add(firstWord)
	}
	return p
}

// Report shows the numbers now and then.
func (p *Progress) Report(done, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.next.IsZero() || now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(nextWord), true
	p.c.Errorf("\r%s: %d of %d \x1b[K", p.what, done, all)
}

// End removes the line.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		p.c.Errorf("\r\x1b[K")
		p.shown = false
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
