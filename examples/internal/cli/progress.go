// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Progress shows at a terminal that a command is working, and how much is done. It writes one line
// to the error output and updates this line. The line appears after two seconds, and only if the
// error output is a terminal. End must be called before anything else is written. A Progress is
// safe for concurrent use.
type Progress struct {
	c         Console
	what      string
	done, all atomic.Int64
	end       func()
}

// The time until the line appears, and the time between two updates.
const (
	progressDelay    = 2 * time.Second
	progressInterval = 200 * time.Millisecond
)

// clearLine moves the cursor to the start of the line and clears it (ECMA-48).
const clearLine = "\r\x1b[K"

// NewProgress returns a Progress. Its line begins with the given description of the work, such as
// "packets tried" or "waiting for the agent".
func NewProgress(c Console, what string) *Progress {
	p := &Progress{c: c, what: what, end: func() {}}
	if isTerminal(c.Err) {
		p.start()
	}
	return p
}

// start shows the line until End is called.
func (p *Progress) start() {
	stop, shown := make(chan struct{}), sync.WaitGroup{}
	shown.Go(func() { p.show(stop) })
	p.end = sync.OnceFunc(func() {
		close(stop)
		shown.Wait()
	})
}

func (p *Progress) show(stop <-chan struct{}) {
	began, wait := time.Now(), progressDelay
	for {
		select {
		case <-stop:
			if time.Since(began) >= progressDelay {
				p.c.Errorf(clearLine)
			}
			return
		case <-time.After(wait):
		}
		wait = progressInterval
		p.c.Errorf("%s%s", clearLine, p.line(time.Since(began)))
	}
}

// line returns the text of the line. It cuts the text to the width of the terminal, because a
// wrapped line could not be cleared.
func (p *Progress) line(since time.Duration) string {
	text := fmt.Sprintf("%s, %.0f s", p.what, since.Seconds())
	if all := p.all.Load(); all > 0 {
		text = fmt.Sprintf("%s: %d of %d, %.0f s", p.what, p.done.Load(), all, since.Seconds())
	}
	if width := columns(p.c.Err); width > 0 {
		text = text[:min(len(text), width-1)]
	}
	return text
}

// Report sets the numbers in the line. Without Report, the line only has the time.
func (p *Progress) Report(done, all int) {
	p.done.Store(int64(done))
	p.all.Store(int64(all))
}

// End removes the line.
func (p *Progress) End() { p.end() }
