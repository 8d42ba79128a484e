// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

// At a terminal, a line appears after two seconds, is updated, and is removed at the end.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs buffer
		p := &Progress{c: Console{Err: &errs}, what: "work"}
		p.start()
		time.Sleep(progressDelay - time.Millisecond)
		synctest.Wait()
		require.Empty(t, errs.String(), "no line before two seconds")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, "\r\x1b[Kwork, 2 s", errs.String())
		p.Report(1, 3)
		time.Sleep(progressInterval)
		synctest.Wait()
		require.Equal(t, "\r\x1b[Kwork, 2 s\r\x1b[Kwork: 1 of 3, 2 s", errs.String())
		p.End()
		p.End()
		require.Equal(t, "\r\x1b[Kwork, 2 s\r\x1b[Kwork: 1 of 3, 2 s\r\x1b[K", errs.String())

		errs.Reset()
		p = &Progress{c: Console{Err: &errs}, what: "work"}
		p.start()
		p.End()
		require.Empty(t, errs.String())
	})
}

// If the output is a file, no progress is written.
func TestNoProgressInFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs buffer
		p := NewProgress(Console{Err: &errs}, "work")
		time.Sleep(time.Minute)
		p.Report(1, 2)
		time.Sleep(time.Minute)
		p.End()
		require.Empty(t, errs.String())
	})
}
