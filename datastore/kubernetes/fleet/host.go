// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
)

var _ apiserver.T = (*host)(nil)

// host implements apiserver.T for a command: it provides temporary folders, and ends the servers.
type host struct {
	ctx context.Context
	out io.Writer

	mu       sync.Mutex
	cleanups []func()
	errs     []error
}

// withHost calls a function with a host, and then cleans up. It returns the function's error, or
// the errors that were reported to the host.
func withHost(ctx context.Context, out io.Writer, f func(*host) error) error {
	h := &host{ctx: ctx, out: out}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer h.cleanUp()
		if err := f(h); err != nil { // FailNow ends this goroutine; its errors are recorded already
			h.fail(err)
		}
	}()
	<-ended
	return errors.Join(h.errs...)
}

func (h *host) cleanUp() {
	for _, f := range slices.Backward(h.cleanups) {
		f()
	}
}

func (h *host) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

// Helper does nothing.
func (h *host) Helper() {}

// Context returns the context of the command.
func (h *host) Context() context.Context { return h.ctx }

// TempDir returns a new folder, which is removed at the end.
func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		h.Errorf("%v", err)
		h.FailNow()
	}
	h.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			h.fail(err)
		}
	})
	return dir
}

// Cleanup calls a function at the end. The function that was added last is called first.
func (h *host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}

// Log prints a line.
func (h *host) Log(args ...any) { fmt.Fprintln(h.out, args...) }

// Errorf records an error.
func (h *host) Errorf(format string, args ...any) { h.fail(fmt.Errorf(format, args...)) }

// FailNow ends the function that withHost called.
func (h *host) FailNow() { runtime.Goexit() }

// Failed reports whether there was an error.
func (h *host) Failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.errs) > 0 && h.ctx.Err() == nil // an interrupt does not need logs
}

// Skip records why the servers cannot run, and ends the function that withHost called.
func (h *host) Skip(args ...any) {
	h.Errorf("%s", fmt.Sprint(args...))
	h.FailNow()
}
