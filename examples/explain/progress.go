// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/wayleave/wayleave/examples/internal/cli"
)

// progress tells a person at a terminal how far a long computation is. What is not a terminal is
// told nothing.
type progress struct {
	c    cli.Console
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

func newProgress(c cli.Console, what string) *progress {
	p := &progress{c: c, what: what}
	if isTerminal(c.Err) {
		p.next = time.Now().Add(firstWord)
	}
	return p
}

// report may be called by several goroutines.
func (p *progress) report(done, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.next.IsZero() || now.Before(p.next) {
		return
	}
	p.next, p.shown = now.Add(nextWord), true
	p.c.Errorf("\r%s: %d of %d \x1b[K", p.what, done, all)
}

// end takes the words away again.
func (p *progress) end() {
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
